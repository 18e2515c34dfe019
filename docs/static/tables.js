/* On a telephone the cells of a row stand below each other, each with the head of its column: see site.css. */

for (const table of document.querySelectorAll("table.docutils")) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.children].forEach((cell, column) => (cell.dataset.head = heads[column] || ""));
  }
}
