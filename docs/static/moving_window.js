/* A window that moves over a small image: the result of a pool, and the gradient of its sum, redrawn at every change.
   Controls and pools are in `docs/moving_window.html`. Tests hold `evaluate` to jaxpool, and run what `calls` says. */
const MovingWindow = (() => {
  const range = (count) => Array.from({ length: count }, (_, i) => i);
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const modulo = (a, n) => ((a % n) + n) % n;
  const options = [...document.querySelectorAll(".moving-window option")];
  const ABOUT = Object.fromEntries(options.map(({ value, dataset }) => [value, dataset]));

  // The cell that is copied to a place beyond the n cells of an axis, and how many cells a padding adds at either end.
  const COPIES = {
    WRAP: (place, n) => modulo(place, n),
    REFLECT: (place, n) => n - 1 - Math.abs(n - 1 - modulo(place, Math.max(1, 2 * (n - 1)))),
    SYMMETRIC: (place, n) => n - 1 - Math.floor(Math.abs(2 * n - 1 - 2 * modulo(place, 2 * n)) / 2),
    EDGE: (place, n) => Math.min(Math.max(place, 0), n - 1),
  };
  function amounts(padding, n, e, stride) {
    if (typeof padding === "number") return [padding, padding];
    const needed = Math.max((Math.ceil(n / stride) - 1) * stride + e - n, 0);
    const total = padding === "VALID" ? 0 : padding.startsWith("SAME") ? needed : e - 1;
    const lows = { SAME_LOWER: Math.ceil(total / 2), CAUSAL: total, SEMICAUSAL: Math.max(e - stride, 0) };
    const low = lows[padding] ?? Math.floor(total / 2);
    return [low, total - low];
  }

  // Windows along an axis, as the places of their cells, and the cell at a place: -1 for padding, null beyond it.
  function along(s) {
    const [{ windows: kind }, { size: n, kernel, stride, padding, dilation, ceil }] = [ABOUT[s.pool], s];
    const inside = (place) => (place >= 0 && place < n ? place : null);
    if (kind) {
      const m = kind === "bins" ? s.bins : 1;
      const windows = range(m).map((i) => range(n).filter((u) => u >= Math.floor((i * n) / m) && u * m < (i + 1) * n));
      const formula = kind === "bins" ? `bin i: ⌊i·${n}/${m}⌋ ≤ cell < ⌈(i + 1)·${n}/${m}⌉` : "one window of all cells";
      return { low: 0, high: 0, cell: inside, windows, formula };
    }
    const e = dilation * (kernel - 1) + 1;
    const [low, high] = amounts(padding, n, e, stride);
    const [floor, ceiling] = [Math.floor, Math.ceil].map((round) => round((n + low + high - e) / stride) + 1);
    const late = ceil && (ceiling - 1) * stride >= low + n + (padding in COPIES ? high : 0);
    const count = Math.max(ceil ? ceiling - late : floor, 0);
    const rounded = (steps) => (ceil ? `⌈${steps}⌉ + 1${late ? " − 1" : ""}` : `⌊${steps}⌋ + 1`);
    const steps = ["(n + low + high − e)/stride", `(${n} + ${low} + ${high} − ${e})/${stride}`].map(rounded);
    const formula = `size: ${steps.join(" = ")} = ${count}, where e = ${dilation}·(${kernel} − 1) + 1 = ${e}`;
    const cell = (place) =>
      place < -low || place >= n + high ? null : (inside(place) ?? COPIES[padding]?.(place, n) ?? -1);
    const windows = range(count).map((i) => range(kernel).map((j) => i * stride - low + j * dilation));
    return { low, high, extra: count !== floor, cell, windows, formula };
  }
  function cellAt({ cell }, n, row, column) {
    const [i, j] = [cell(row), cell(column)];
    return i === null || j === null ? null : i < 0 || j < 0 ? -1 : i * n + j;
  }

  // Of the numbers x in a window: the value of a pool, its slopes and, if they differ, the weights of the cells.
  const scaled = (x, factor) => x.map((each) => each * factor);
  const ranked = (x, sign) => range(x.length).sort((i, j) => sign * (x[i] - x[j]) || i - j);
  const only = (x, chosen) => [x[chosen] ?? 0, x.map((_, i) => Number(i === chosen))];
  const nth = (x, k) => only(x, ranked(x, -1)[k - 1]);
  const average = (x) => weighted(x, x.map(() => 1));
  function weighted(x, weights) {
    const shares = scaled(weights, 1 / (sum(weights) || 1));
    return [sum(x.map((each, i) => each * shares[i])), shares];
  }
  function quantile(x, q) {
    const [order, place] = [ranked(x, 1), Number((q * (x.length - 1)).toFixed(6))];
    return weighted(x, x.map((_, i) => Math.max(0, 1 - Math.abs(order.indexOf(i) - place))));
  }
  function smooth(x, beta, count) {
    const top = Math.max(...scaled(x, beta));
    const powers = x.map((each) => Math.exp(beta * each - top));
    return [(top + Math.log(sum(powers) / count)) / beta, scaled(powers, 1 / sum(powers))];
  }
  function selfWeighted(x, weights, slopes) {
    const [value, shares] = weighted(x, weights);
    return [value, shares.map((share, i) => share + (slopes[i] * (x[i] - value)) / (sum(weights) || 1)), shares];
  }
  function norm(x, p, count) {
    const value = (sum(x.map((each) => each ** p)) / count) ** (1 / p);
    return [value, x.map((each) => each && (each / value) ** (p - 1) / count)];
  }
  const centred = (x) => x.map((each) => each - average(x)[0]);
  const root = ([square, slopes]) => [Math.sqrt(square), scaled(slopes, square && 0.5 / Math.sqrt(square))];
  function mixed(x, alpha, members) {
    const [[top, winner], [value, shares]] = [nth(x.filter((_, i) => members[i].cell >= 0), 1), average(x)];
    return [alpha * top + (1 - alpha) * value, shares.map((each, i) => alpha * (winner[i] ?? 0) + (1 - alpha) * each)];
  }
  const row = (k, j) => (j ? (row(k, j - 1) * (k - j)) / j : 1); // of Pascal's triangle
  const POOLS = {
    ...{ nth, average, quantile, mixed },
    largest: (x) => nth(x, 1),
    smallest: (x) => only(x, ranked(x, 1)[0]),
    variance: (x) => [average(centred(x).map((each) => each ** 2))[0], scaled(centred(x), 2 / x.length)],
    deviation: (x) => root(POOLS.variance(x)),
    total: (x) => [sum(x), x.map(() => 1)],
    median: (x) => quantile(x, 0.5),
    norm: (x, p) => norm(x, p, 1),
    power: (x, p) => norm(x, p, x.length),
    smooth: (x, beta) => smooth(x, beta, 1),
    soft: (x, beta) => selfWeighted(x, smooth(x, beta, 1)[1], scaled(smooth(x, beta, 1)[1], beta)),
    draws: (x) => selfWeighted(x, x, x.map(Math.sign)),
    mellow: (x, beta) => smooth(x, beta, x.length),
    weights: (x, _, members, { size }) => weighted(x, members.map(({ cell }) => (cell % size) % 3)),
    logits: (x, _, members, { size }) => weighted(x, members.map(({ cell }) => Math.exp((cell % size) % 3))),
    blur: (x, _, members, { kernel: k }) => weighted(x, members.map(({ at: [i, j] }) => row(k, i) * row(k, j))),
  };
  function evaluate(s) {
    const [axis, k, { of, padding, winner, footprint }] = [along(s), s.kernel, ABOUT[s.pool]];
    const counts = { zeros: true, counts: s.include, ignored: s.include }[padding];
    const gradient = s.x.map(() => 0);
    const results = axis.windows.flatMap((rows) => axis.windows.map((columns) => {
      const pairs = rows.flatMap((row, i) => columns.map((column, j) => ({ row, column, at: [i, j] })));
      const box = pairs.map((pair) => ({ ...pair, cell: cellAt(axis, s.size, pair.row, pair.column) }));
      const cells = box.filter(({ at }) => !footprint || sum(at.map((i) => Math.abs(2 * i + 1 - k))) <= k);
      const real = cells.filter(({ cell }) => s.mask[cell]);
      const members = [...real, ...cells.filter(({ cell }) => counts && cell < 0)];
      const x = members.map(({ cell }) => s.x[cell] ?? 0);
      const [value, slopes, weights = slopes] = x.length ? POOLS[of](x, s.number, members, s) : [0, []];
      members.forEach((member, i) => (member.weight = weights[i]));
      real.forEach(({ cell }, i) => (gradient[cell] += slopes[i]));
      const index = winner && (members[slopes.indexOf(1)]?.cell ?? -1);
      return { value, members, rows, columns, index, empty: cells.every(({ cell }) => (cell ?? -1) < 0) };
    }));
    const error = results.some(({ empty }) => empty) && (!counts || of === "mixed") && "a window holds only padding";
    return { axis, counts, results, gradient, error: results.length ? error : "no window fits" };
  }

  // What to write for x and a mask of shape (N, H, W, C), in PyTorch (N, C, H, W), or what a library has not.
  function calls(s) {
    const { number, array, windows, padding, torch, flax, name = s.pool, kernel = "(K, K)" } = ABOUT[s.pool];
    const { low, high, extra } = along(s);
    const [k, masked, copied] = [s.kernel, s.mask.includes(false), s.padding in COPIES && low + high > 0];
    const [usual, unpadded] = s.pool === "blur_pool" ? [2, "REFLECT"] : [k, 0];
    const twice = (value) => `(${value}, ${value})`;
    const named = (given) => Object.entries(given).map(([key, value]) => (value ? `, ${key}=${value}` : "")).join("");
    const counts = { counts: !s.include && "False", ignored: s.include && "True" }[padding];
    const [stride, dilation] = windows ? [] : [s.stride !== usual && s.stride, s.dilation > 1 && s.dilation];
    const added = s.padding !== unpadded && JSON.stringify(s.padding);
    const ours = { stride, padding: added, dilation, ceil_mode: s.ceil && "True", count_include_pad: counts };
    const sizes = windows === "all" ? "" : kernel.replaceAll("K", windows ? s.bins : k) + (windows ? "" : named(ours));
    const given = ["x", number && String(s.number), array, sizes].filter(Boolean).join(", ");
    const call = (library, template, sizes, ...missing) => {
      const [, what] = [[!template, s.pool], [masked, "masks"], ...missing].find(([is]) => is) ?? [];
      if (what) return `# ${library} has no ${what}`;
      return template.replace("X", "x").replace("K", sizes).replaceAll("P", s.number);
    };
    const uncounted = low + high > 0 && !copied && counts;
    const indices = /indices/.test(s.pool) && "True";
    const theirs = { dilation, ceil_mode: extra && "True", count_include_pad: uncounted, return_indices: indices };
    const most = /max|avg/.test(torch) ? k : 0; // PyTorch pads both ends alike, by half a window.
    const around = s.padding === "SAME" ? '"SAME"' : low + high > 0 && twice(`(${low}, ${high})`);
    const strides = { strides: s.stride > 1 && twice(s.stride), padding: around, count_include_pad: uncounted };
    return [
      `jaxpool.${name}(${given}, axis="NHWC"${named({ where: masked && "mask" })})`,
      call("PyTorch", torch, (windows ? s.bins : k) + named({ stride, padding: low, ...theirs }),
        [dilation && !/max/.test(torch), "dilation here"], [extra && /lp/.test(torch), "partial windows here"],
        [!windows && (copied || low !== high || 2 * low > most), "such padding here"]),
      call("Flax", flax, twice(k) + named(strides), [dilation, "dilation"], [extra, "ceil_mode"],
        [copied, "copies as padding"]),
    ];
  }

  // What is drawn: squares of 40 units, the stronger in colour the larger a weight or a slope.
  const short = (value) => String(+(+value.toFixed(2)).toPrecision(3)).replace("-", "−").replace(/^(−?)0\./, "$1.");
  function square([row, column], [kind, text, note = "", weight = 0]) {
    const box = 'x="2" y="2" width="36" height="36" rx="5"';
    const colour = `class="of-${weight < 0 ? "negative" : "gradient"}"`;
    return `<g class="${kind}" transform="translate(${40 * column} ${40 * row})"><rect ${box}/>
      <rect ${box} ${colour} fill-opacity="${Math.min(Math.cbrt(Math.abs(weight)), 1)}"/>
      <text x="20" y="${note ? 20 : 25}">${text}</text><text x="20" y="33" class="note">${note}</text></g>`;
  }
  function show(svg, low, size, cell, { rows = [], columns = [] }) {
    const places = range(size * size).map((i) => [Math.floor(i / size), i % size]);
    svg.setAttribute("viewBox", `0 0 ${40 * size} ${40 * size}`);
    svg.parentNode.style.setProperty("--cells", size);
    svg.firstElementChild.innerHTML = places.map(([i, j]) => square([i, j], cell(i - low, j - low))).join("");
    const [height, width] = [rows, columns].map((cells) => 40 * (cells.at(-1) - cells[0] + 1) || 0);
    const [top, left] = [rows, columns].map((cells) => 40 * (cells[0] + low) || 0);
    svg.lastElementChild.style = `width: ${width}px; height: ${height}px; transform: translate(${left}px, ${top}px)`;
  }

  document.querySelectorAll(".moving-window").forEach((figure) => {
    const [form, masked] = [figure.querySelector("form"), new Set()];
    const [texts, [input, output, slopes]] = ["p:not(.help), pre", "svg"].map((part) => figure.querySelectorAll(part));
    let [at, cursor, axis] = [[1, 1], [0, 0], null];
    function settings() {
      const s = Object.fromEntries([...new FormData(form)].map(([name, of]) => [name, isNaN(of) ? of : Number(of)]));
      const cells = range(s.size ** 2).map((i) => [Math.floor(i / s.size), i % s.size]);
      const x = cells.map(([i, j]) => [7, 2, 5, 0, 3, 8, 1, 4, 9, 6, 2][(i * i + 7 * i + 3 * j) % 11]);
      return { ...s, x, mask: cells.map((cell) => !masked.has(String(cell))), ceil: s.ceil && s.pool !== "blur_pool" };
    }
    function choose() {
      const { number = "p 1 9 1 1", padding } = ABOUT[form.pool.value];
      const [name, min, max, step, value] = number.split(" ");
      Object.assign(form.number, { min, max, step, value });
      form.number.labels[0].firstElementChild.textContent = name;
      form.include.checked = padding === "counts";
      draw();
    }
    function draw() {
      const s = settings();
      const { counts, results, gradient, error } = evaluate(s);
      const [n, count] = [s.size, (axis = along(s)).windows.length];
      at = at.map((i) => Math.max(0, Math.min(i, count - 1)));
      const here = error ? { members: [] } : results[at[0] * count + at[1]];
      const end = Math.max(n + axis.high, ...axis.windows.map((places) => places.at(-1) + 1));
      show(input, axis.low, axis.low + end, (...place) => {
        const cell = cellAt(axis, n, ...place);
        const { weight } = here.members.find(({ row, column }) => row === place[0] && column === place[1]) ?? {};
        const kinds = { beyond: cell === null, padding: cell < 0, masked: s.mask[cell] === false };
        Object.assign(kinds, { outside: place.some((i) => i < 0 || i >= n), cursor: String(place) === String(cursor) });
        const kind = Object.keys(kinds).filter((each) => kinds[each]).join(" ");
        return [kind, s.x[cell] ?? (cell < 0 && counts ? 0 : ""), weight === undefined ? "" : short(weight), weight];
      }, here);
      const result = ({ value, index }) => ["", short(value), /indices/.test(s.pool) ? short(index) : ""];
      show(output, 0, error ? 0 : count, (i, j) => result(results[i * count + j]), { rows: [at[0]], columns: [at[1]] });
      const slope = (i) => [s.mask[i] ? "" : "masked", error ? "" : short(gradient[i]), "", error ? 0 : gradient[i]];
      show(slopes, 0, n, (i, j) => slope(i * n + j), here);
      const winner = here.index >= 0 ? `, won by x[${Math.floor(here.index / n)}, ${here.index % n}]` : "";
      const status = error ? `jaxpool raises: ${error}` : `result[${at.join(", ")}] = ${short(here.value)}${winner}`;
      [status, axis.formula, ...calls(s)].forEach((text, i) => (texts[i].textContent = text));
      form.querySelectorAll("output").forEach((each) => (each.value = each.previousElementSibling.value));
    }
    const distance = (i, place) => Math.abs(axis.windows[i][0] + axis.windows[i].at(-1) - 2 * place);
    const order = (place) => range(axis.windows.length).sort((i, j) => distance(i, place) - distance(j, place));
    const nearest = (places) => places.map((place) => order(place)[0] ?? 0);
    const cells = (svg) => svg.viewBox.baseVal.width / 40 / svg.getBoundingClientRect().width;
    const place = (event) => [event.offsetY, event.offsetX].map((far) => Math.floor(far * cells(event.target)));
    const inside = (event) => place(event).map((i) => i - axis.low);
    const move = (to) => String(to) !== String(at) && draw((at = to));
    const toggle = (cell) => draw(masked.delete(String(cell)) || masked.add(String(cell)), (at = nearest(cell)));
    input.onpointermove = (event) => move(nearest(inside(event)));
    output.onclick = output.onpointermove = (event) => move(place(event));
    slopes.onclick = slopes.onpointermove = (event) => move(nearest(place(event)));
    input.onclick = (event) => toggle((cursor = inside(event)));
    figure.onkeydown = (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], " ": [0, 0] };
      if (event.target.localName !== "svg" || !(event.key in steps)) return;
      event.preventDefault();
      event.stopPropagation(); // Sphinx would turn the page.
      const stepped = (from) => from.map((i, axis) => Math.max(0, i + steps[event.key][axis]));
      if (event.target === output) return move(stepped(at));
      cursor = stepped(cursor).map((i) => Math.min(i, settings().size - 1));
      return event.key === " " ? toggle(cursor) : draw((at = nearest(cursor)));
    };
    form.oninput = ({ target }) => (target === form.pool ? choose() : draw());
    form.onreset = () => setTimeout(() => choose(masked.clear()));
    choose();
  });
  return { evaluate, calls };
})();
