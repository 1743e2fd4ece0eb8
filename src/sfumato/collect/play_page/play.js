// @ts-check
/** The idea on one page: a made-up crowd, blurred by the form's own program, and what its reports say. */
import { Draws, Program, stated } from "./program.js";
import { expected, guessed, posterior, shares } from "./estimate.js";

const SMOKES = ["never smoked", "used to smoke", "smokes"];
const ILL = ["well", "ill"];
const COLOURS = ["--a", "--b", "--c"];
/** Made-up shares of SMOKES × ILL: who smokes is ill three times as often. */
const LAW = [0.46, 0.04, 0.24, 0.04, 0.16, 0.06];
const MOST = 5000;
const ROOMS = [150, 600, 2000, MOST]; // dots are as large as the smallest room allows
const SECONDS = 6; // for the crowd to arrive
const MARGIN = 1.96;

/** @template {Element} T @param {string} id @param {new () => T} kind @returns {T} */
function part(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(id);
  return found;
}
const gammaInput = part("gamma", HTMLInputElement);
const peopleInput = part("people", HTMLInputElement);
const personInput = part("person", HTMLInputElement);
const canvases = [part("truth", HTMLCanvasElement), part("reports", HTMLCanvasElement)];
const still = matchMedia("(prefers-reduced-motion: reduce)");
const draws = new Draws();

/** What is shown: γ, how many people, how many columns. */
const state = { gamma: 19, people: 500, columns: 1 };
/** @type {number[][]} */
let records = [];
/** @type {number[][]} */
let reports = [];

const logarithmic = (/** @type {number} */ place, /** @type {number} */ least, /** @type {number} */ most) =>
  Math.round(least * (most / least) ** (place / 100));
const per = (/** @type {number} */ share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const sizes = () => (state.columns === 1 ? [3] : [3, 2]);
const law = () =>
  state.columns === 1 ? [0, 2, 4].map((cell) => LAW[cell] + LAW[cell + 1]) : LAW;
/** @param {number[]} record */
const cellOf = (record) => (state.columns === 1 ? record[0] : 2 * record[0] + record[1]);
/** @param {number} cell */
const named = (cell) =>
  state.columns === 1 ? SMOKES[cell] : `${SMOKES[cell >> 1]}, ${ILL[cell & 1]}`;

/** The program of a form that asks these columns at this γ. */
function program() {
  const columns = sizes().map((_, i) => i);
  const cells = sizes().reduce((all, size) => all * size, 1);
  const total = state.gamma + cells - 1;
  return new Program({
    version: 1,
    steps: [{ step: "diagonal", columns, reports: columns, sizes: sizes(), scale: 1, total }],
  });
}

/** Other people, with other true records. */
function crowd() {
  const whole = LAW.map((share) => Math.round(share * 2 ** 32));
  whole[0] += 2 ** 32 - whole.reduce((sum, weight) => sum + weight, 0);
  records = Array.from({ length: MOST }, () => {
    const cell = draws.pick(whole);
    return [cell >> 1, cell & 1];
  });
}

/** Every record through the program once. */
function blur() {
  const run = program();
  reports = records.map((record) => run.randomise(record.slice(0, state.columns), draws));
}

/** The people in the order in which their dots stand: by true record, so that blur is seen. */
function order() {
  const cells = law().map((_, cell) => cell);
  const people = Array.from({ length: state.people }, (_, i) => i);
  return cells.flatMap((cell) => people.filter((i) => cellOf(records[i]) === cell));
}

/** A dot for each person, at the same place on both sides. */
function dots() {
  const room = ROOMS.find((most) => state.people <= most) ?? MOST;
  const style = getComputedStyle(document.documentElement);
  const people = order();
  canvases.forEach((canvas, side) => {
    const context = canvas.getContext("2d");
    if (!context) return;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [width * scale, height * scale];
    context.scale(scale, scale);
    const across = Math.ceil(Math.sqrt((room * width) / height));
    const step = Math.min(width / across, height / Math.ceil(room / across));
    /** @param {number} place @returns {[number, number]} */
    const at = (place) => [
      ((place % across) + 0.5) * step,
      (Math.floor(place / across) + 0.5) * step,
    ];
    COLOURS.forEach((colour, value) => {
      context.beginPath();
      people.forEach((i, place) => {
        const shown = (side ? reports : records)[i];
        if (shown[0] !== value) return;
        const [x, y] = at(place);
        const square = state.columns === 2 && shown[1];
        const radius = step * (state.columns === 2 && !square ? 0.25 : 0.42);
        context.moveTo(x + radius, y);
        if (square) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
        else context.arc(x, y, radius, 0, 2 * Math.PI);
      });
      context.fillStyle = style.getPropertyValue(colour);
      context.fill();
    });
    context.beginPath();
    context.lineWidth = 2;
    context.strokeStyle = style.getPropertyValue("--ink");
    context.arc(...at(people.indexOf(person())), step * 0.9, 0, 2 * Math.PI);
    context.stroke();
  });
}

/** The person looked at. */
function person() {
  const asked = Math.trunc(Number(personInput.value)) || 1;
  return Math.min(Math.max(asked, 1), state.people) - 1;
}

/** How many of some people are in each cell. @param {number[][]} crowd */
function counted(crowd) {
  const counts = law().map(() => 0);
  for (let i = 0; i < state.people; i++) counts[cellOf(crowd[i])] += 1;
  return counts;
}

/** An element of a picture. @param {string} name @param {Record<string, string | number>} given
 * @param {string} [text] */
function drawn(name, given, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) element.setAttribute(key, `${value}`);
  element.textContent = text;
  return element;
}
/** A picture. @param {number} width @param {number} height @param {string} label
 * @param {Element[]} parts */
function picture(width, height, label, parts) {
  const given = { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  const svg = drawn("svg", given);
  svg.append(...parts);
  return svg;
}

/** The crowd's shares from the reports, with intervals, and the truth beside them. */
function bars() {
  const found = shares(counted(reports), state.gamma);
  const truth = counted(records.map((record) => record.slice(0, state.columns)));
  const place = part("bars", HTMLDivElement);
  const [width, row, left] = [place.clientWidth, 30, 150];
  const most = 0.8;
  const x = (/** @type {number} */ share) =>
    left + (Math.min(Math.max(share, 0), most) / most) * (width - left - 10);
  const colour = (/** @type {number} */ cell) =>
    `var(${COLOURS[state.columns === 1 ? cell : cell >> 1]})`;
  const parts = found.flatMap(({ share, stderr }, cell) => {
    const y = cell * row;
    const middle = y + row / 2;
    const [low, high] = [x(share - MARGIN * stderr), x(share + MARGIN * stderr)];
    const line = { stroke: "var(--ink)", "stroke-width": 2, "stroke-linecap": "round" };
    const tip = x(truth[cell] / state.people);
    return [
      drawn("text", { x: left - 8, y: middle + 5, "text-anchor": "end" }, named(cell)),
      drawn("rect", {
        x: left,
        y: y + 6,
        width: x(share) - left,
        height: row - 14,
        fill: colour(cell),
      }),
      drawn("line", { x1: low, x2: high, y1: middle - 1, y2: middle - 1, ...line }),
      drawn("path", { d: `M${tip} ${y + row - 8}l5 8h-10z`, fill: "var(--ink)" }),
    ];
  });
  const label = found
    .map(({ share, stderr }, cell) => `${named(cell)} ${per(share, 1)} ± ${per(MARGIN * stderr, 1)}`)
    .join("; ");
  place.replaceChildren(picture(width, found.length * row + 4, label, parts));
  const margin = Math.max(...found.map(({ stderr }) => MARGIN * stderr));
  const points = (100 * margin).toFixed(margin < 0.1 ? 1 : 0);
  part("bars-said", HTMLParagraphElement).textContent =
    `${state.people.toLocaleString("en")} reports at γ = ${state.gamma}: every share to within ± ${points} points.`;
}

/** A curve over γ, with a mark at the γ chosen. @param {string} title
 * @param {(gamma: number) => number} value @param {number} most @param {string} now */
function curve(title, value, most, now) {
  const width = part("bars", HTMLDivElement).clientWidth; // the columns are of one width
  const [height, left, top, bottom] = [200, 58, 30, 34];
  const x = (/** @type {number} */ gamma) =>
    left + (Math.log(gamma / 2) / Math.log(100)) * (width - left - 20);
  const y = (/** @type {number} */ share) =>
    height - bottom - (Math.min(share, most) / most) * (height - top - bottom);
  const gammas = Array.from({ length: 81 }, (_, i) => 2 * 100 ** (i / 80));
  const path = gammas.map((gamma, i) => `${i ? "L" : "M"}${x(gamma)} ${y(value(gamma))}`).join("");
  const ticks = [2, 5, 10, 19, 50, 100, 200].flatMap((gamma) => [
    drawn("line", { class: "faint", x1: x(gamma), x2: x(gamma), y1: top, y2: height - bottom }),
    drawn(
      "text",
      { x: x(gamma), y: height - bottom + 16, "text-anchor": "middle" },
      gamma === 2 ? "γ = 2" : `${gamma}`,
    ),
  ]);
  const levels = [0, most / 2, most].flatMap((share) => [
    drawn("line", { class: "faint", x1: left, x2: width - 20, y1: y(share), y2: y(share) }),
    drawn("text", { x: left - 6, y: y(share) + 5, "text-anchor": "end" }, per(share)),
  ]);
  const [cx, cy] = [x(state.gamma), y(value(state.gamma))];
  return picture(width, height, `${title}: ${now}`, [
    ...ticks,
    ...levels,
    drawn("path", { d: path, fill: "none", stroke: "var(--mark)", "stroke-width": 2.5 }),
    drawn("circle", { cx, cy, r: 6, fill: "var(--mark)" }),
    drawn("text", { x: left, y: 16 }, `${title}: ${now}`),
  ]);
}

/** What an attacker makes of one report, and what γ trades. */
function attack() {
  const chosen = person();
  personInput.max = `${state.people}`;
  const [record, report] = [cellOf(records[chosen]), cellOf(reports[chosen])];
  const after = posterior(law(), state.gamma, report);
  const best = after.indexOf(Math.max(...after));
  part("person-said", HTMLParagraphElement).textContent =
    `True record: ${named(record)}. Report: ${named(report)}. The attacker guesses “${named(best)}” ` +
    `with ${per(after[best])} confidence (${per(law()[best])} before the report) and is ` +
    `${best === record ? "right" : "wrong"}.`;
  const share = Math.max(...law());
  const error = (/** @type {number} */ gamma) =>
    MARGIN * expected(share, gamma, law().length, state.people);
  part("trade", HTMLDivElement).replaceChildren(
    curve(
      "Attacker right",
      (gamma) => guessed(law(), gamma),
      1,
      `${per(guessed(law(), state.gamma))} (without a report ${per(share)})`,
    ),
    curve(
      "Margin of the largest share",
      error,
      0.4,
      `± ${per(error(state.gamma), 1)} with ${state.people.toLocaleString("en")} people`,
    ),
  );
}

/** All that stands on the page, for the state. */
function show() {
  const { epsilon, posterior: suspicion } = stated([BigInt(state.gamma), 1n]);
  part("gamma-said", HTMLOutputElement).value =
    `γ = ${state.gamma} (ε = ${epsilon}): a suspicion of 5 % becomes at most ${suspicion} %`;
  part("people-said", HTMLOutputElement).value = state.people.toLocaleString("en");
  const same = program().share(
    sizes().map(() => 0),
  );
  part("equal", HTMLSpanElement).textContent = `${per(same)} equal the truth`;
  dots();
  bars();
  attack();
}

function key() {
  const names = SMOKES.map((name, i) => [name, COLOURS[i], ""]);
  if (state.columns === 2) names.push(["square: ill", "--ink", "square"]);
  part("key", HTMLDivElement).replaceChildren(
    ...names.map(([name, colour, shape]) => {
      const span = document.createElement("span");
      span.textContent = name;
      span.className = shape;
      span.style.setProperty("--colour", `var(${colour})`);
      return span;
    }),
  );
}

let running = 0;
/** People arrive one after the other; without motion they are there at once. */
function watch() {
  cancelAnimationFrame(running);
  const goal = MOST;
  if (still.matches) {
    state.people = goal;
    peopleInput.value = "100";
    return show();
  }
  state.people = 20;
  show();
  const start = performance.now();
  const frame = (/** @type {number} */ now) => {
    const done = Math.min((now - start) / 1000 / SECONDS, 1);
    state.people = Math.round(20 * (goal / 20) ** done);
    peopleInput.value = `${100 * done}`;
    show();
    if (done < 1) running = requestAnimationFrame(frame);
  };
  running = requestAnimationFrame(frame);
}

gammaInput.addEventListener("input", () => {
  state.gamma = logarithmic(Number(gammaInput.value), 2, 200);
  blur();
  show();
});
peopleInput.addEventListener("input", () => {
  cancelAnimationFrame(running);
  state.people = logarithmic(Number(peopleInput.value), 20, MOST);
  show();
});
personInput.addEventListener("input", () => show());
for (const input of document.querySelectorAll('input[name="columns"]'))
  input.addEventListener("change", (event) => {
    state.columns = Number(/** @type {HTMLInputElement} */ (event.target).value);
    key();
    blur();
    show();
  });
part("watch", HTMLButtonElement).addEventListener("click", watch);
part("again", HTMLButtonElement).addEventListener("click", () => {
  crowd();
  blur();
  show();
});
addEventListener("resize", () => show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());

state.gamma = logarithmic(Number(gammaInput.value), 2, 200);
state.people = logarithmic(Number(peopleInput.value), 20, MOST);
key();
crowd();
blur();
show();
