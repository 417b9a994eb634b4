//! Places of the texts of a picture, to find those that lie on each other or are cut.
//!
//! The reader's font is unknown. Widths are those of DejaVu Sans, a wide one, rounded up.

/// Least overlap that a reader notices, pixels.
const NOTICED: f64 = 1.0;

/// A text, or a box.
#[derive(Clone, PartialEq, Debug)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    words: String,
}

impl Area {
    fn overlaps(&self, other: &Self) -> bool {
        let across = self.right.min(other.right) - self.left.max(other.left);
        let down = self.bottom.min(other.bottom) - self.top.max(other.top);
        across > NOTICED && down > NOTICED
    }

    fn holds(&self, other: &Self) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }
}

/// A sentence for each pair of texts that lie on each other, and for each text that goes beyond the picture, or beyond the box in
/// which it begins.
pub(crate) fn faults(svg: &str) -> Vec<String> {
    let size: Vec<f64> = value(svg, "viewBox").split(' ').map(|number| number.parse().unwrap()).collect();
    let [left, top, width, height] = size.try_into().unwrap();
    let page = Area { left, right: left + width, top, bottom: top + height, words: String::new() };
    let texts: Vec<_> = elements(svg, "text").filter_map(text).collect();
    let boxes: Vec<_> = elements(svg, "rect").filter(|element| value(element, "rx") == "8").map(card).collect();
    let mut faults = Vec::new();
    for (index, one) in texts.iter().enumerate() {
        let words = &one.words;
        if !page.holds(one) {
            faults.push(format!("'{words}' is cut at the picture's edge"));
        }
        let inside =
            |card: &&Area| card.left < one.left && one.left < card.right && card.top < one.top && one.top < card.bottom;
        if boxes.iter().filter(inside).any(|card| !card.holds(one)) {
            faults.push(format!("'{words}' goes beyond its box"));
        }
        let lies_on = texts[index + 1..].iter().filter(|other| one.overlaps(other));
        faults.extend(lies_on.map(|other| format!("'{words}' lies on '{}'", other.words)));
    }
    faults
}

/// Elements of a name: attributes and content.
fn elements<'a>(svg: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let end = format!("</{name}>");
    let begin = format!("<{name} ");
    let parts: Vec<_> = svg.split(&begin).skip(1).collect();
    parts.into_iter().map(move |part| part.split(&end).next().unwrap_or(part))
}

fn value<'a>(element: &'a str, name: &str) -> &'a str {
    let begin = format!("{name}=\"");
    let at = element.find(&begin).map(|at| at + begin.len());
    at.and_then(|at| element[at..].split('"').next()).unwrap_or_default()
}

fn number(element: &str, name: &str) -> f64 {
    // `x` and `y` end other names too.
    let attributes = format!(" {element}");
    value(&attributes, &format!(" {name}")).parse().unwrap()
}

fn card(element: &str) -> Area {
    let (left, top) = (number(element, "x"), number(element, "y"));
    let (right, bottom) = (left + number(element, "width"), top + number(element, "height"));
    Area { left, right, top, bottom, words: String::new() }
}

/// The area of a text; `None` without words.
fn text(element: &str) -> Option<Area> {
    let (attributes, words) = element.split_once('>').unwrap();
    let words = words.trim().replace("&apos;", "'").replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    let words = words.replace("&amp;", "&");
    (!words.is_empty()).then_some(())?;
    let size = number(attributes, "font-size");
    let bold = if value(attributes, "font-weight") == "600" { 1.13 } else { 1.0 };
    let wide = words.chars().map(advance).sum::<f64>() * size * bold;
    let (x, y) = (number(attributes, "x"), number(attributes, "y"));
    let left = match value(attributes, "text-anchor") {
        "end" => x - wide,
        "middle" => x - wide / 2.0,
        _ => x,
    };
    // A text stands on its place, or is centred there.
    let base = if attributes.contains("dy=\"0.5ex\"") { y + 0.27 * size } else { y };
    Some(Area { left, right: left + wide, top: base - 0.76 * size, bottom: base + 0.24 * size, words })
}

/// Width of a character as a part of the font's size.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '|' | '.' | ',' | ':' | ';' | '\'' | '!' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '-' | ' ' | '/' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' => 0.97,
        'A'..='Z' => 0.75,
        's' | 'c' | 'k' | 'z' | 'x' | 'v' | 'y' => 0.59,
        _ => 0.64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_and_cut_texts_are_found() {
        let text =
            |x: i32, y: i32, words: &str| format!("<text font-size=\"10\" x=\"{x}\" y=\"{y}\">\n{words}\n</text>\n");
        let page = |inner: &str| {
            format!(
                "<svg viewBox=\"0 0 200 100\">\n<rect rx=\"8\" x=\"10\" y=\"40\" width=\"50\" height=\"30\"/>\n{inner}</svg>\n"
            )
        };
        let of = |texts: &[String]| faults(&page(&texts.concat()));
        assert!(of(&[text(0, 20, "one"), text(30, 20, "two"), text(0, 32, "three"), text(15, 55, "in")]).is_empty());
        assert_eq!(of(&[text(0, 20, "one"), text(10, 25, "two")]), ["'one' lies on 'two'"]);
        assert_eq!(of(&[text(180, 20, "a word")]), ["'a word' is cut at the picture's edge"]);
        assert_eq!(of(&[text(0, 5, "high"), text(0, 99, "low")]).len(), 2);
        assert_eq!(of(&[text(15, 55, "a longer one")]), ["'a longer one' goes beyond its box"]);
        let end = text(198, 20, "to the left").replace("<text", "<text text-anchor=\"end\"");
        assert!(of(&[end]).is_empty());
    }
}
