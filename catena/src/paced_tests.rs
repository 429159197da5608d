use super::*;

#[test]
fn a_flood_of_lines_is_counted_and_not_said() {
    let (paced, began) = (Paced::new(), Instant::now());
    let said = (0..1_000).filter(|_| paced.take(began).is_some()).count();
    assert_eq!(said, LINES_PER_WINDOW_MAX as usize);
    assert_eq!(paced.take(began + WINDOW), Some(990), "what was left out is told");
    assert_eq!(paced.take(began + WINDOW), Some(0));
}
