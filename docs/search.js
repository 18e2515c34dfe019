/* How the results of a search are ordered: the page of a function comes first where its title has what is searched for,
   or where that is the name of a layer, such as MaxPool2d. Stand-ins of that name come after it. */

var Scorer = {
  score: ([docname, title, anchor, description, score]) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    if (!docname.startsWith("reference/") || !query) return score;
    const names = title.toLowerCase().split(/: |, | \(|\)/);
    if (names.includes(query)) return score + 200;
    const isLayer = /(max|avg|average|lp)(un)?pool(ing)?([123]d)?$/.test(query);
    if (isLayer) return docname.startsWith("reference/compat_") ? score : score + 100;
    return query.split(/\s+/).every((word) => title.toLowerCase().includes(word)) ? score + 100 : score;
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
