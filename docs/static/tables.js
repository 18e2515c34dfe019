/* On a telephone the cells of a row stand below each other, each with the head of its column, if there are words in them
   and not only numbers: see site.css. */

for (const table of document.querySelectorAll("table.docutils")) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  const cells = [...table.querySelectorAll("tbody td")];
  const isWordy = cells.some((cell) => cell.cellIndex && cell.textContent.length > 20);
  table.classList.toggle("stacked", isWordy);
  cells.forEach((cell) => (cell.dataset.head = heads[cell.cellIndex] || ""));
}
