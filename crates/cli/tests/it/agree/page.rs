//! Reads the matrix of the HTML page, which shows each client under each policy.

/// A cell, as its CSS class and its text.
pub(crate) type MatrixCell = (String, String);

/// Returns the rows of the first table whose first column has clients.
pub(crate) fn matrix(page: &str) -> Vec<Vec<MatrixCell>> {
    let begin = "<thead><tr><th>client</th><th class=\"n\">promised MB/s</th>";
    let (_, table) = page.split_once(begin).expect("there is a matrix");
    let (table, _) = table.split_once("</table>").expect("it ends");
    let rows = table.split("<tr").skip(1);
    rows.map(|row| row.split("<td").skip(1).map(cell).collect())
        .collect()
}

fn cell(html: &str) -> MatrixCell {
    let (tag, rest) = html.split_once('>').expect("a tag ends");
    let (text, _) = rest.split_once("</td>").expect("a cell ends");
    let class = tag.split_once("class=\"").map(|(_, class)| class);
    let class = class.and_then(|class| class.split('"').next());
    (class.unwrap_or_default().to_owned(), text.to_owned())
}
