/* How the results of a search are ordered: first what is called so, as pages and sections are by their titles, with
   spaces or underscores, with "pooling" or "pool", and with the number of axes that layers have, as in MaxPool2d; then
   titles that have all of the words, short ones first, then guides, then functions; at last the changelog and the
   notebooks, which have most words in them. */

const spelled = (words) =>
  words
    .toLowerCase()
    .replace(/average/g, "avg")
    .replace(/pooling/g, "pool")
    .replace(/[123]d$/, "")
    .replace(/[^\p{Letter}\p{Number}]/gu, "");

var Scorer = {
  score: ([docname, title, anchor, description, score]) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").trim();
    const heading = title.split(" > ").pop();
    const names = heading.split(/: |, | \(|\)| and |jaxpool\./).map(spelled);
    const words = query.split(/[\s_]+/).map(spelled);
    if (docname.startsWith("notebooks/")) return score - 200;
    if (docname === "changelog") return score - 100;
    if (docname.startsWith("reference/compat_")) return score;
    if (names.includes(spelled(query))) return score + (description ? 180 : 200);
    if (names.includes(spelled(`${query} pool`))) return score + 150;
    const has = heading.split(/[^\p{Letter}\p{Number}]+/u).map(spelled);
    if (words.every((word) => has.includes(word))) return score + 100 - heading.length / 2;
    if (words.every((word) => has.join("").includes(word))) return score + 50 - heading.length / 4;
    if (docname.startsWith("reference/")) return score;
    return score + (docname === "conventions" ? 25 : docname.startsWith("from_") ? 10 : 20);
  },
  // Those of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
