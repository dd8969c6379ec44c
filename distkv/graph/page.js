// What one can do on the page of a message graph. Its data is made by page.py.
//
// Only what is in sight is drawn, so that some thousand moments scroll smoothly. Texts become text nodes, never markup.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { nodes, kinds, moments, arrows } = data;
  const ROW = 24, HEAD = 32, GUTTER = 92, SPARE = 20;
  const $ = (id) => document.getElementById(id);

  const off = { nodes: new Set(), kinds: new Set() };
  let shown = [];                                // the numbers of the moments that are shown
  const place = new Int32Array(moments.length);  // moment -> its place among them, or -1
  let drawn = [];                                // the arrows that are shown
  let picked = 0;                                // a moment
  let hovered = null;                            // another one, or none
  let followed = "";                             // a tick as a:3, or the key of a message
  let carriers = [];                             // the moments that have to do with it
  let carrying = null;                           // the same as a set, with the arrows

  // -- what is known before anything is drawn

  // Who holds the same has the same colour; digests that were met one after the other differ most.
  const hues = new Map();
  const colour = (digest) => {
    if (!digest) return "var(--line)";
    if (!hues.has(digest)) hues.set(digest, hues.size);
    return `hsl(${Math.round((205 + hues.get(digest) * 137.508) % 360)} var(--digest-depth) var(--digest-light))`;
  };
  // What every node was after each moment.
  const views = [];
  let last = nodes.map(() => null);
  for (const moment of moments) {
    last = last.slice();
    for (const [lane, view] of moment.s) {
      last[lane] = view < 0 ? null : data.views[view];
      if (last[lane]) colour(last[lane].digest);
    }
    views.push(last);
  }
  const nobody = nodes.map(() => null);
  const who = (lane) => (lane < 0 ? "all" : nodes[lane]);
  const texts = moments.map((moment) => `${who(moment.n)} ${moment.x} ${moment.d.join(" ")}`.toLowerCase());

  // -- small things

  const seconds = (ms) => `${(ms / 1000).toFixed(3)} s`;
  const ink = (kind) => `var(--${kinds[kind].group})`;
  const make = (name, properties = {}, ...children) => {
    const found = Object.assign(document.createElement(name), properties);
    found.append(...children);
    return found;
  };
  const draw = (name, attributes, ...children) => {
    const found = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    found.append(...children);
    return found;
  };
  const swatch = (fill) => {
    const found = make("span", { className: "swatch" });
    found.style.background = fill;
    return found;
  };

  // -- what is shown

  const isShown = (number, wanted) => {
    const moment = moments[number];
    if (off.nodes.has(moment.n)) return false;
    if (off.kinds.has(moment.k) && moment.o.every((kind) => off.kinds.has(kind))) return false;
    return !wanted || texts[number].includes(wanted);
  };

  const isDrawn = (arrow) => {
    if (off.kinds.has(arrow.k) || off.nodes.has(arrow.a) || off.nodes.has(arrow.b)) return false;
    return (arrow.f === null || place[arrow.f] >= 0) && (arrow.t === null || place[arrow.t] >= 0);
  };

  const filter = () => {
    const wanted = $("search").value.trim().toLowerCase();
    shown = [];
    place.fill(-1);
    moments.forEach((_, number) => {
      if (isShown(number, wanted)) place[number] = shown.push(number) - 1;
    });
    drawn = arrows.filter(isDrawn);
    $("scrub").max = Math.max(0, shown.length - 1);
    $("scrub").disabled = shown.length === 0;
    $("count").textContent = `${shown.length} of ${moments.length} moments`;
    $("sheet").style.height = `${shown.length * ROW + SPARE}px`;
    paintBand();
    pick(shown.length && place[picked] < 0 ? nearest(picked) : picked);
  };

  // The shown moment at or before this one, else the first.
  const nearest = (number) => {
    let low = 0, high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (shown[middle] <= number) low = middle + 1;
      else high = middle;
    }
    return shown[Math.max(0, low - 1)];
  };

  const chips = (home, names, offs, fill) => {
    const all = make("button", { type: "button", textContent: "all" }), none = make("button", { type: "button", textContent: "none" });
    const set = (isOn) => {
      for (const box of $(home).querySelectorAll("input")) box.checked = isOn;
      offs.clear();
      if (!isOn) names.forEach((_, number) => offs.add(number));
      filter();
    };
    all.addEventListener("click", () => set(true));
    none.addEventListener("click", () => set(false));
    names.forEach((text, number) => {
      const box = make("input", { type: "checkbox", checked: true, name: home, value: text });
      box.addEventListener("change", () => {
        if (box.checked) offs.delete(number);
        else offs.add(number);
        filter();
      });
      const chip = make("label", { className: "chip" }, box, ...(fill ? [swatch(fill(number))] : []), text);
      if (fill) chip.style.setProperty("--own", fill(number));
      $(home).append(chip);
    });
    $(home).append(all, none);
  };

  // -- the diagram

  // What was measured when the window had this size: to ask each time would lay the page out over and over.
  const size = { width: 0, height: 0, lane: 0, band: 0, bar: 0 };
  const measure = () => {
    size.bar = Math.max(2, Math.min(10, Math.floor(120 / Math.max(1, nodes.length))));
    $("band").style.height = `${nodes.length * (size.bar + 2) + 6}px`;
    size.width = $("scroll").clientWidth;
    size.height = $("scroll").clientHeight;
    size.band = $("band").clientWidth;
    size.lane = Math.max(56, Math.min(120, (size.width - GUTTER - 420) / Math.max(1, nodes.length)));
  };
  const laneX = (lane) => GUTTER + size.lane * (lane + 0.5);
  const wordsX = () => GUTTER + size.lane * nodes.length + 8;
  const rowY = (at) => at * ROW + ROW / 2;
  const faint = (thing) => (carrying === null || carrying.has(thing) ? "" : "dim");

  const paint = () => {
    const box = $("scroll"), sheet = $("arrows");
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
    const end = Math.min(shown.length, Math.ceil((box.scrollTop + size.height) / ROW) + 10);
    const width = Math.max(size.width, wordsX() + 240);
    for (const part of [$("sheet"), $("lanes")]) part.style.width = `${width}px`;
    sheet.setAttribute("width", width);
    sheet.setAttribute("height", shown.length * ROW + SPARE);
    const parts = shown.length ? [...lives(first, end), ...shafts(first, end), ...dots(first, end)] : [];
    sheet.replaceChildren(...parts);
    $("rows").replaceChildren(...shown.slice(first, end).map((number, at) => row(number, first + at)));
    if (place[picked] >= first && place[picked] < end) box.setAttribute("aria-activedescendant", `m${picked}`);
    else box.removeAttribute("aria-activedescendant");
  };

  // A line of life has the colour of what the node holds, and is dashed while there is no node.
  const lives = (first, end) => nodes.flatMap((_, lane) => {
    const found = [], x = laneX(lane);
    const look = (at) => {
      const now = views[shown[at]][lane];
      return now ? `${now.digest} ${now.missing === ""}` : "";
    };
    for (let from = first; from < end;) {
      let to = from + 1;
      while (to < end && look(to) === look(from)) to += 1;
      const now = views[shown[from]][lane], y1 = rowY(from), y2 = to < end ? rowY(to) : rowY(to - 1) + ROW / 2;
      found.push(draw("line", { x1: x, x2: x, y1, y2, ...(now ? { class: "life", style: `stroke:${colour(now.digest)}` } : { class: "gone" }) }));
      if (now && now.missing) found.push(draw("line", { x1: x - 5, x2: x - 5, y1, y2, class: "gap" }));
      from = to;
    }
    return found;
  });

  const shafts = (first, end) => {
    const found = [];
    for (const arrow of drawn) {
      const top = place[arrow.f === null ? arrow.t : arrow.f], bottom = arrow.t === null ? top : place[arrow.t];
      if (bottom >= first - 1 && top < end) found.push(shaft(arrow, rowY(top), rowY(bottom)));
    }
    return found;
  };

  const shaft = (arrow, top, bottom) => {
    const from = laneX(arrow.a), to = laneX(arrow.b < 0 ? arrow.a : arrow.b), way = to < from ? -1 : 1;
    const style = `stroke:${ink(arrow.k)}`, form = arrow.p ? "shaft tcp" : "shaft";
    if (arrow.l) {  // it ends on its way
      const x = from + way * 16, y = top + 10;
      return draw("g", { class: faint(arrow) }, draw("path", { d: `M${from + way * 5} ${top}L${x} ${y}`, class: form, style }),
        draw("path", { d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`, class: "cross" }));
    }
    const x = to - way * 7, angle = Math.atan2(bottom - top, x - from);
    const wing = (turn) => `${x - 7 * Math.cos(angle + turn)} ${bottom - 7 * Math.sin(angle + turn)}`;
    const d = `M${from + way * 5} ${top}L${x} ${bottom}`;
    return draw("g", { class: faint(arrow) }, draw("path", { d, class: form, style }),
      draw("path", { d: `M${wing(0.4)}L${x} ${bottom}L${wing(-0.4)}`, class: "shaft", style }));
  };

  const dots = (first, end) => shown.slice(first, end).map((number, at) => {
    const moment = moments[number], cy = rowY(first + at);
    if (moment.n < 0) return draw("line", { x1: GUTTER, x2: wordsX() - 12, y1: cy, y2: cy, class: "all" });
    const style = `fill:${ink(moment.k)}`;
    return draw("circle", { cx: laneX(moment.n), cy, r: number === picked ? 6.5 : 4.5, class: `dot ${faint(number)}`, style });
  });

  const row = (number, at) => {
    const moment = moments[number];
    const what = make("span", { className: `what ${faint(number)}`, title: moment.x }, make("b", { textContent: who(moment.n) }), ` ${moment.x}`);
    what.style.left = `${wordsX()}px`;
    const found = make("div", { id: `m${number}`, className: "row" }, make("time", { textContent: (moment.t / 1000).toFixed(3) }), what);
    found.style.top = `${at * ROW}px`;
    found.dataset.number = number;
    found.setAttribute("role", "option");
    found.setAttribute("aria-selected", number === picked);
    found.setAttribute("aria-setsize", shown.length);
    found.setAttribute("aria-posinset", at + 1);
    found.classList.toggle("picked", number === picked);
    return found;
  };

  // -- the band: every node over all that is shown

  const paintBand = () => {
    const band = $("band"), width = size.band, scale = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const known = new Map();  // a canvas does not know variables, and to ask for them is slow
    const real = (fill) => {
      if (!known.has(fill)) known.set(fill, fill.replace(/var\((--[a-z-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
      return known.get(fill);
    };
    const high = size.bar, height = nodes.length * (high + 2) + 4;
    band.width = width * scale;
    band.height = height * scale;
    const pen = band.getContext("2d");
    pen.scale(scale, scale);
    const fill = (paint, ...box) => { pen.fillStyle = real(paint); pen.fillRect(...box); };
    if (!shown.length) return;
    nodes.forEach((_, lane) => {
      const y = 2 + lane * (high + 2);
      const at = (x) => views[shown[Math.min(shown.length - 1, Math.floor((x / width) * shown.length))]][lane];
      for (let x = 0; x < width;) {
        const now = at(x);
        let to = x + 1;
        while (to < width && at(to) === now) to += 1;
        if (now) fill(colour(now.digest), x, y, to - x, high);
        if (now && now.missing) fill("var(--missing)", x, y + high - 2, to - x, 3);
        x = to;
      }
    });
    if (carrying) for (const number of carriers) if (place[number] >= 0) fill("var(--ink)", bandX(number) - 0.5, 0, 1, 3);
  };

  const moveCursor = () => {
    const number = hovered === null ? picked : hovered;
    $("cursor").hidden = !shown.length || place[number] < 0;
    if (!$("cursor").hidden) $("cursor").style.left = `${bandX(number)}px`;
  };

  const bandX = (number) => ((place[number] + 0.5) / shown.length) * size.band;

  // -- what is told beside it

  const tell = () => {
    const number = hovered === null ? picked : hovered;
    if (!shown.length) {
      $("at").textContent = "Nothing is shown";
      $("states").tBodies[0].replaceChildren();
      return;
    }
    const view = views[number], before = number ? views[number - 1] : nobody;
    $("at").textContent = `The nodes at ${seconds(moments[number].t)}`;
    $("states").tBodies[0].replaceChildren(...nodes.flatMap((_, lane) => stateRows(lane, view[lane], before[lane])));
    $("lanes").replaceChildren(...nodes.map((text, lane) => {
      const head = make("span", {}, swatch(colour(view[lane] && view[lane].digest)), text);
      head.style.left = `${laneX(lane)}px`;
      return head;
    }));
    tellMoment(number);
  };

  const stateRows = (lane, now, before) => {
    const top = make("tr", { className: "node" }, make("th", { scope: "row", textContent: nodes[lane] }));
    top.dataset.node = nodes[lane];
    if (!now) {
      top.append(make("td", { colSpan: 4, className: "soft", textContent: "no process seen" }));
      return [top];
    }
    const part = (kind, field, text, more = "") => {
      const isNew = before === null || before[field] !== now[field];
      const found = make(kind, { className: `${more} ${isNew ? "changed" : ""}`, textContent: text });
      found.dataset.field = field;
      return found;
    };
    const digest = part("td", "digest", ` ${now.digest.slice(0, 8)}`);
    digest.prepend(swatch(colour(now.digest)));
    const tick = now.tick.slice(now.tick.lastIndexOf(":") + 1);
    top.append(part("td", "state", now.state), part("td", "tick", tick), part("td", "tock", now.tock), digest);
    const more = make("td", { colSpan: 5, className: "more" }, "pings ", part("span", "chain", now.chain || "none"), make("br"),
      "missing ", part("span", "missing", now.missing || "nothing", now.missing ? "warn" : ""));
    if (now.lost) more.append(make("br"), "lost ", part("span", "lost", now.lost, "warn"));
    const bottom = make("tr", {}, more);
    bottom.dataset.node = nodes[lane];
    return [top, bottom];
  };

  const tellMoment = (number) => {
    const moment = moments[number];
    $("moment-title").textContent = `${seconds(moment.t)}, ${who(moment.n)}: ${kinds[moment.k].name}`;
    $("moment-text").textContent = moment.x;
    $("details").replaceChildren(...moment.d.map((line) => make("li", { textContent: line })));
    $("tags").replaceChildren(...moment.g.map((tag) => {
      const button = make("button", { type: "button", textContent: tag, title: `Follow ${tag}` });
      button.setAttribute("aria-pressed", tag === followed);
      button.addEventListener("click", () => follow(tag === followed ? "" : tag));
      return button;
    }));
  };

  // -- following

  // Whether a text of ranges, as a:1-5,9 b:350.1, has a tick, as a:3.
  const holds = (text, tag) => {
    const cut = tag.search(/\d+$/), head = tag.slice(0, cut), count = Number(tag.slice(cut));
    if (cut < 0 || !text.includes(head)) return false;
    return text.split(" ").some((word) => word.startsWith(head) && word.slice(head.length).split(",").some((part) => {
      const [from, to = from] = part.split("-");
      return Number(from) <= count && count <= Number(to);
    }));
  };
  const carries = (thing, tag) => thing.w.split(" ").includes(tag) || holds(thing.e, tag);

  // Also where a node comes to miss a tick, or does not miss it any more.
  const concerns = (number, tag) => {
    const moment = moments[number];
    if (carries(moment, tag)) return true;
    const now = views[number][moment.n], before = number ? views[number - 1][moment.n] : null;
    return Boolean(now && before && now.missing !== before.missing && holds(now.missing, tag) !== holds(before.missing, tag));
  };

  const follow = (tag) => {
    followed = tag;
    carriers = tag ? moments.map((_, number) => number).filter((number) => concerns(number, tag)) : [];
    carrying = tag ? new Set([...carriers, ...arrows.filter((arrow) => carries(arrow, tag))]) : null;
    $("follow").hidden = !tag;
    $("find").value = tag;
    $("followed").textContent = tag;
    const on = new Set(carriers.map((number) => moments[number].n));
    const more = carriers.length > 500 ? "; the first 500:" : "";
    $("reach").textContent = `${carriers.length} moments, on ${on.size} of ${nodes.length} nodes${more}`;
    $("journey").replaceChildren(...carriers.slice(0, 500).map((number) => {
      const moment = moments[number], text = `${(moment.t / 1000).toFixed(3)} ${who(moment.n)} ${moment.x}`;
      const button = make("button", { type: "button", textContent: text, title: text });
      button.dataset.number = number;
      button.addEventListener("click", () => pick(place[number] < 0 ? nearest(number) : number));
      return make("li", {}, button);
    }));
    paintBand();
    pick(picked);
  };

  const followNext = () => {
    const tags = moments[picked].g;
    if (tags.length) follow(tags[(tags.indexOf(followed) + 1) % tags.length]);
  };

  const along = (way) => {
    const where = carriers.filter((number) => place[number] >= 0);
    const next = way > 0 ? where.find((number) => number > picked) : where.reverse().find((number) => number < picked);
    if (next !== undefined) pick(next);
  };

  // -- going through time

  const pick = (number) => {
    picked = number;
    hovered = null;
    const at = place[number], box = $("scroll"), scrub = $("scrub");
    if (at >= 0) {
      const top = at * ROW, high = size.height - HEAD;
      scrub.value = at;
      scrub.setAttribute("aria-valuetext", `${seconds(moments[number].t)} ${who(moments[number].n)} ${moments[number].x}`);
      if (top < box.scrollTop || top + ROW > box.scrollTop + high) box.scrollTop = Math.max(0, top - high / 2);
    }
    paint();
    tell();
    moveCursor();
    for (const button of $("journey").querySelectorAll("button")) {
      button.setAttribute("aria-current", Number(button.dataset.number) === picked);
    }
  };

  const pickAt = (at) => {
    if (shown.length) pick(shown[Math.max(0, Math.min(shown.length - 1, at))]);
  };

  const hover = (number) => {
    if (number === hovered) return;
    hovered = number;
    tell();
    moveCursor();
  };

  const KEYS = {
    ArrowDown: () => pickAt(place[picked] + 1),
    ArrowUp: () => pickAt(place[picked] - 1),
    PageDown: () => pickAt(place[picked] + 20),
    PageUp: () => pickAt(place[picked] - 20),
    Home: () => pickAt(0),
    End: () => pickAt(shown.length - 1),
    Enter: followNext,
    f: followNext,
    n: () => along(1),
    p: () => along(-1),
  };

  const listen = () => {
    const box = $("scroll");
    let isDue = false;
    box.addEventListener("scroll", () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        paint();
      });
    });
    const rowOf = (event) => {
      const found = event.target.closest(".row");
      return found ? Number(found.dataset.number) : null;
    };
    box.addEventListener("click", (event) => {
      const number = rowOf(event);
      if (number !== null) pick(number);
    });
    box.addEventListener("pointermove", (event) => hover(rowOf(event)));
    box.addEventListener("pointerleave", () => hover(null));
    box.addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey || !shown.length) return;
      event.preventDefault();
      act();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") follow("");
      if (event.key !== "/" || event.target.matches("input[type=search]")) return;
      event.preventDefault();
      $("search").focus();
    });
    const bandAt = (event) => Math.floor((event.offsetX / size.band) * shown.length);
    $("band").addEventListener("click", (event) => pickAt(bandAt(event)));
    $("scrub").addEventListener("input", () => pickAt(Number($("scrub").value)));
    $("search").addEventListener("input", filter);
    $("find").addEventListener("change", () => {
      follow($("find").value.trim());
      const first = carriers.find((number) => place[number] >= 0);  // what is followed may be far from here
      if (first !== undefined) pick(first);
    });
    $("tools").addEventListener("submit", (event) => event.preventDefault());
    $("unfollow").addEventListener("click", () => follow(""));
    const again = () => { measure(); paint(); paintBand(); tell(); moveCursor(); };
    window.addEventListener("resize", again);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  };

  chips("nodes", nodes, off.nodes, null);
  chips("kinds", kinds.map((kind) => kind.name), off.kinds, ink);
  listen();
  measure();
  filter();
})();
