use catena::BlobBytes;

use super::*;

fn step(step: u32, node: &str, target: &str, arrived_at_us: u64, left_at_us: u64) -> StepTrace {
    StepTrace { step, node: node.into(), target: target.into(), arrived_at_us, left_at_us, ..StepTrace::default() }
}

/// A client goes to mtv (90 ms away), makes one more call there, goes on to cam (120 ms), and hears from cam (177 ms).
fn trip() -> Vec<StepTrace> {
    vec![
        StepTrace { guest_us: 1_000, ..step(0, "client", "", 1_000_000, 1_001_000) },
        // In place: noted before the stay that holds it ends.
        StepTrace { in_place: true, service_us: 3_000, ..step(2, "mtv", "probe.mtv/echo", 1_093_000, 1_096_000) },
        StepTrace {
            site: Some("mtv".into()),
            service_us: 2_000,
            guest_us: 500,
            continuation_bytes: 4_100,
            ..step(1, "mtv", "probe.mtv/where", 1_091_000, 1_097_000)
        },
        StepTrace {
            service_us: 50_000,
            guest_us: 400,
            continuation_bytes: 5_000,
            ..step(3, "cam", "probe.cam/sleep", 1_217_000, 1_267_400)
        },
    ]
}

#[test]
fn a_trip_is_drawn() {
    let drawn = Chart::new(&trip(), 1_444_400).text(false);
    let expected = "\
step  node    site  calling                  network  service    guest   state
   0  client        (begins here)                              1.00 ms          =
   1  mtv     mtv   probe.mtv/where          90.0 ms  2.00 ms  0.50 ms  4.1 KB  --------.
   2  mtv           probe.mtv/echo          in place  3.00 ms                           #
   3  cam           probe.cam/sleep         120.0 ms  50.0 ms  0.40 ms  5.0 KB          -----------#####
                    (answer to the origin)  177.0 ms                                                    ----------------
";
    let (table, summary) = drawn.split_at(drawn.find("total").unwrap_or_default());
    assert_eq!(table, expected, "\n{table}");
    assert_eq!(
        summary,
        "total 444.4 ms: - network 387.0 ms (87%), # service 55.0 ms (12%), = guest 1.90 ms (0%)\n\
         3 calls, 2 of them by hopping, 0 from afar, 1 in place; 9.1 KB of state carried"
    );
}

#[test]
fn bytes_of_blobs_are_told_by_the_way_they_came() {
    let read = |link, pushed, own| Some(Box::new(BlobBytes { link, pushed, own, ..BlobBytes::default() }));
    let steps = [
        step(0, "client", "", 0, 0),
        StepTrace { blobs: read(45_800_000, 4_200_000, 0), ..step(1, "red", "files.red/take", 10_000, 90_000) },
        StepTrace { in_place: true, blobs: read(0, 0, 12), ..step(2, "red", "catena.blob/text", 80_000, 81_000) },
    ];
    let chart = Chart::new(&steps, 100_000);
    let drawn = chart.text(false);
    assert!(drawn.lines().next().is_some_and(|head| head.ends_with("state  blobs")), "{drawn}");
    assert!(drawn.contains(" 45.8 MB by link + 4.2 MB pushed "), "{drawn}");
    assert!(drawn.contains(" 12 B from here "), "{drawn}");
    assert!(drawn.ends_with("; blobs read: 12 B from here + 45.8 MB by link + 4.2 MB pushed"), "{drawn}");
    assert_eq!(chart.json()["steps"][1]["blobs"]["pushed"], 4_200_000);
    assert_eq!(chart.json()["steps"][0]["blobs"], serde_json::Value::Null);
}

#[test]
fn programs_get_every_number() {
    let json = Chart::new(&trip(), 1_444_400).json();
    assert_eq!(json["total_us"], 444_400);
    assert_eq!(json["home_us"], 177_000);
    assert_eq!(json["steps"][1]["network_us"], 90_000);
    assert_eq!(json["steps"][2]["in_place"], true);
    assert_eq!(json["steps"][2]["begins_us"], 93_000);
    assert_eq!(json["steps"][3]["network_us"], 120_000);
}

#[test]
fn clocks_that_disagree_leave_the_way_unknown() {
    let steps = [step(0, "a", "", 1_000, 2_000), step(1, "b", "s/f", 500, 700)];
    let chart = Chart::new(&steps, 3_000);
    assert_eq!(chart.hops.get(1).map(|hop| hop.network_us), Some(None));
    assert!(chart.text(false).contains(" ? "), "{}", chart.text(false));
}

#[test]
fn colours_and_blocks_only_where_they_are_welcome() {
    let steps = trip();
    let chart = Chart::new(&steps, 1_444_400);
    assert!(chart.text(false).is_ascii());
    assert!(chart.text(true).contains("\u{1b}[34m─"));
}

#[test]
fn a_long_chain_is_folded_and_hostile_numbers_do_no_harm() {
    let long: Vec<_> =
        (0..2_000).map(|n| step(n, "n\u{1b}[2J", "s/f", u64::from(n) * 10, u64::from(n) * 10 + 5)).collect();
    let text = Chart::new(&long, 30_000).text(false);
    assert!(text.lines().count() < 130);
    assert!(text.contains("1880 more steps"), "{text}");
    assert!(!text.contains('\u{1b}'));
    let far = [
        StepTrace { service_us: u64::MAX, guest_us: u64::MAX, ..step(0, "a", "", 0, u64::MAX) },
        StepTrace { continuation_bytes: u64::MAX, ..step(1, "b", "s/f", u64::MAX, 0) },
        StepTrace { continuation_bytes: u64::MAX, in_place: true, ..step(2, "b", "s/f", u64::MAX, 0) },
    ];
    assert!(Chart::new(&far, 0).text(false).contains("total"));
    assert!(Chart::new(&[], 0).text(true).contains("total 0.00 ms"));
}

/// As `Role/branch target begins_us`.
#[track_caller]
fn laid_out(steps: &[StepTrace], expected: &[&str]) {
    let hops = Chart::new(steps, 10_000).hops;
    let told: Vec<_> = hops
        .iter()
        .map(|hop| format!("{:?}{} {} {}", hop.role, hop.step.branch, hop.target(), hop.begins_us))
        .collect();
    assert_eq!(told, expected);
}

/// The same step, of this branch.
fn of(branch: &str, step: StepTrace) -> StepTrace {
    StepTrace { branch: branch.parse().unwrap_or_default(), ..step }
}

#[test]
fn branches_are_told_from_their_parents_and_each_other() {
    let steps = [
        step(0, "client", "", 1_000, 1_100),
        step(1, "a", "s/f", 1_200, 1_300),
        // It makes a call where it begins, then goes to b.
        of(".1", StepTrace { in_place: true, ..step(3, "a", "s/g", 1_320, 1_330) }),
        of(".1", step(2, "a", "/", 1_310, 1_350)),
        of(".1", step(4, "b", "s/h", 1_400, 1_450)),
        // The second splits again, and merges where it is.
        of(".2", step(2, "a", "/", 1_310, 1_320)),
        of(".2", step(3, "c", "s/f", 1_500, 1_510)),
        of(".2.1", step(4, "c", "/", 1_515, 1_520)),
        of(".2.1", step(5, "d", "s/f", 1_600, 1_620)),
        of(".2.2", step(4, "c", "/", 1_515, 1_530)),
        of(".2", step(4, "c", "/", 1_630, 1_700)),
        step(2, "a", "/", 1_710, 1_800),
        step(3, "d", "s/z", 1_900, 1_950),
    ];
    laid_out(
        &steps,
        &[
            "Call  0",
            "Call s/f 200",
            "Branch.1  310",
            "Call.1 s/g 320",
            "Call.1 s/h 400",
            "Branch.2  310",
            "Call.2 s/f 500",
            "Branch.2.1  515",
            "Call.2.1 s/f 600",
            "Branch.2.2  515",
            "Merge.2  630",
            "Merge  710",
            "Call s/z 900",
        ],
    );
}

#[test]
fn branches_may_merge_elsewhere_and_their_parent_may_split_again() {
    let steps = [
        step(0, "client", "", 1_000, 1_100),
        of(".1", step(1, "client", "/", 1_110, 1_120)),
        of(".1", step(2, "a", "s/f", 1_200, 1_210)),
        of(".2", step(1, "client", "/", 1_110, 1_130)),
        // The parent went to m, and waited there.
        step(1, "m", "/", 1_150, 1_400),
        of(".3", step(2, "m", "/", 1_410, 1_420)),
        step(2, "m", "/", 1_430, 1_500),
    ];
    laid_out(
        &steps,
        &["Call  0", "Branch.1  110", "Call.1 s/f 200", "Branch.2  110", "Merge  150", "Branch.3  410", "Merge  430"],
    );
    let text = Chart::new(&steps, 10_000).text(false);
    assert!(text.contains("(branches merge)") && text.contains("side by side"), "{text}");
    assert!(!Chart::new(&trip(), 1_444_400).text(false).contains("branch"));
}

#[test]
fn a_call_belongs_to_the_stay_in_which_it_was_made_whenever_it_ended() {
    let steps = [
        step(0, "client", "", 1_000, 1_100),
        of(".1", step(2, "client", "/", 1_110, 1_120)),
        of(".1", step(3, "a", "s/f", 1_200, 1_210)),
        // Made before the split, beside it, and answered while its branches were under way.
        StepTrace { in_place: true, served_by: Some("b".into()), ..step(1, "client", "s/g", 1_050, 1_250) },
        StepTrace { in_place: true, ..step(4, "client", "s/h", 1_310, 1_320) },
        step(2, "client", "/", 1_300, 1_400),
    ];
    laid_out(&steps, &["Call  0", "Call s/g 50", "Branch.1  110", "Call.1 s/f 200", "Merge  300", "Call s/h 310"]);
    assert_eq!(Chart::new(&steps, 2_000).home_us, None, "it ended where it began");
}

#[test]
fn a_chain_that_was_not_taken_goes_on_where_it_was() {
    let steps = [
        step(0, "client", "", 1_000, 1_100),
        step(1, "a", "s/f", 1_200, 1_300),
        step(2, "a", "/", 1_500, 1_600),
        step(3, "b", "s/g", 1_700, 1_800),
    ];
    laid_out(&steps, &["Call  0", "Call s/f 200", "Back  500", "Call s/g 700"]);
    assert!(Chart::new(&steps, 2_000).text(false).contains("(goes on here)"));
}

/// An interactive chain calls cam (120 ms away and back), then itself; the other clock is an hour ahead, and plays no part.
fn plain_calls() -> Vec<StepTrace> {
    let call = |of: StepTrace| StepTrace { in_place: true, ..of };
    vec![
        call(StepTrace {
            served_by: Some("cam".into()),
            site: Some("bei".into()),
            service_us: 80_000,
            ..step(1, "client", "probe.cam/sleep", 1_001_000, 1_201_000)
        }),
        call(StepTrace { service_us: 100_000, ..step(2, "client", "own/work", 1_202_000, 1_302_000) }),
        StepTrace { site: Some("bei".into()), guest_us: 2_000, ..step(0, "client", "", 1_000_000, 1_402_000) },
    ]
}

#[test]
fn a_call_from_afar_is_network_around_its_service() {
    let steps = plain_calls();
    let chart = Chart::new(&steps, 1_402_500);
    let drawn = chart.text(false);
    let expected = "\
step  node    site  calling           network   service    guest  state
   0  client  bei   (begins here)                        2.00 ms         .......................................=
   1  cam           probe.cam/sleep  120.0 ms   80.0 ms                  ------########------
   2  client        own/work         in place  100.0 ms                                      ##########
total 402.0 ms: - network 120.0 ms (30%), # service 180.0 ms (45%), = guest 2.00 ms (0%)
2 calls, 0 of them by hopping, 1 from afar, 1 in place; 0 B of state carried";
    assert_eq!(drawn, expected, "\n{drawn}");
    let json = chart.json();
    let told = |key: &str| json["steps"].as_array().map(|steps| steps.iter().map(|step| step[key].clone()).collect());
    assert_eq!(told("served_by"), Some(vec![serde_json::Value::Null, "cam".into(), serde_json::Value::Null]));
    assert_eq!(told("in_place"), Some(vec![false.into(), false.into(), true.into()]));
    assert_eq!(told("network_us"), Some(vec![serde_json::Value::Null, 120_000.into(), serde_json::Value::Null]));
}

#[test]
fn a_merge_shows_the_way_of_its_last_outcome() {
    let steps = [
        step(0, "client", "", 1_000, 1_100),
        of(".1", step(1, "client", "/", 1_110, 1_120)),
        of(".1", step(2, "a", "s/f", 1_200, 1_210)),
        of(".2", step(1, "client", "/", 1_110, 1_120)),
        of(".2", step(2, "b", "s/f", 1_300, 1_400)),
        step(1, "client", "/", 1_490, 1_500),
    ];
    let chart = Chart::new(&steps, 1_500);
    let merge = chart.hops.last().map(|hop| (hop.role, hop.begins_us, hop.network_us));
    assert_eq!(merge, Some((Role::Merge, 490, Some(90))));
}
