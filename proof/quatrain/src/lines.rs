//! Lines on axes: what most figures are.

use std::path::Path;

use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
};

use crate::{Failure, figures::SIZE_PX};

/// A line: its name, its points, its colour.
pub(crate) type Line<'a> = (&'a str, Vec<(f64, f64)>, RGBColor);

/// Of a line with more points, they have no marks.
const MARKED_MAX: usize = 32;

/// How far apart values are.
pub(crate) enum Axes {
    /// Evenly, from 0 on.
    FromZero,
    /// From left to right evenly, from 0 on; upwards by their logarithm, from 1 on.
    LogarithmicUp,
    /// By their logarithm, from 1 on.
    Logarithmic,
}

/// Draws them into a file, from their axes to their greatest values.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn lines_in(
    file: &Path,
    title: &str,
    (x, y): (&str, &str),
    axes: Axes,
    lines: &[Line<'_>],
) -> Result<(), Failure> {
    let points = lines.iter().flat_map(|(_, points, _)| points);
    let most = |(most_x, most_y): (f64, f64), (x, y): &(f64, f64)| (most_x.max(*x), most_y.max(*y));
    let (most_x, most_y) = points.fold((1e-3, 1.0), most);
    let up = || (1.0..most_y * 1.5).log_scale();
    match axes {
        Axes::FromZero => plot(file, title, (x, 0.0..most_x), (y, 0.0..most_y * 1.05), lines),
        Axes::LogarithmicUp => plot(file, title, (x, 0.0..most_x), (y, up()), lines),
        Axes::Logarithmic => plot(file, title, (x, (1.0..most_x.max(2.0)).log_scale()), (y, up()), lines),
    }
}

fn plot<X, Y>(
    file: &Path,
    title: &str,
    (x_name, x): (&str, X),
    (y_name, y): (&str, Y),
    lines: &[Line<'_>],
) -> Result<(), Failure>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::new(file, SIZE_PX).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    chart.configure_mesh().x_desc(x_name).y_desc(y_name).draw()?;
    for (name, points, colour) in lines {
        let style = colour.stroke_width(2);
        let mark = if points.len() > MARKED_MAX { 0 } else { 3 };
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style).point_size(mark))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.9)).draw()?;
    Ok(area.present()?)
}
