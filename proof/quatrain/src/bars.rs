//! Bars side by side, on a logarithmic axis.

use std::path::Path;

use plotters::{
    coord::ranged1d::{IntoSegmentedCoord, SegmentValue},
    prelude::*,
};

use crate::{Failure, figures::SIZE_PX};

/// The bars of one colour: their name, one for each place, the colour.
pub(crate) type Series = (&'static str, Vec<Option<f64>>, RGBColor);

/// Draws them into a file, one of each series at each place, from `least` upwards.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn bars_in(
    file: &Path,
    title: &str,
    (places, y): (&[&str], &str),
    least: f64,
    series: &[Series],
) -> Result<(), Failure> {
    let most = series.iter().flat_map(|(_, values, _)| values).flatten().copied().fold(least * 10.0, f64::max);
    // Above the bars is room for what they are called.
    let top = most * 4.0;
    let count = places.len().max(1);
    let area = SVGBackend::new(file, SIZE_PX).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d((0..count).into_segmented(), (least..top).log_scale())?;
    let label = |value: &SegmentValue<usize>| match value {
        SegmentValue::CenterOf(at) => places.get(*at).copied().unwrap_or("").to_owned(),
        _ => String::new(),
    };
    chart.configure_mesh().disable_x_mesh().y_desc(y).x_label_formatter(&label).draw()?;
    drop(chart);
    // Several bars to a segment: segments have no parts, so the bars are on an axis of plain numbers over the same place.
    let mut bars = ChartBuilder::on(&area)
        .caption(" ", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..count as f64, (least..top).log_scale())?;
    let width = 0.76 / series.len().max(1) as f64;
    for (at, (name, values, colour)) in series.iter().enumerate() {
        let bar = |(place, value): (usize, &Option<f64>)| {
            let left = place as f64 + 0.12 + width * at as f64;
            let drawn = value.filter(|value| *value > least);
            drawn.map(|value| Rectangle::new([(left, least), (left + width * 0.9, value)], colour.filled()))
        };
        bars.draw_series(values.iter().enumerate().filter_map(bar))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    bars.configure_series_labels().position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.9)).draw()?;
    Ok(area.present()?)
}
