// @ts-check
/**
 * What reports of gamma-diagonal say of a crowd: shares with their standard errors, and what an
 * attacker guesses of one person. The same formulas as the Python package; a test compares them.
 */

/** The chance that a report is the record kept, not drawn evenly from its cells.
 * @param {number} gamma @param {number} cells */
export const kept = (gamma, cells) => (gamma - 1) / (gamma + cells - 1);

/** Shares of the true records and their standard errors, the people held fixed: the inverse of the
 * channel κI + (1 − κ)/m·J, and the variance of what it was applied to.
 * @param {number[]} counts reports by cell @param {number} gamma
 * @returns {{ share: number, stderr: number }[]} */
export function shares(counts, gamma) {
  const people = counts.reduce((all, count) => all + count, 0);
  const keep = kept(gamma, counts.length);
  const drawn = (1 - keep) / counts.length;
  return counts.map((count) => {
    const share = (count / people - drawn) / keep;
    const own = (1 - drawn) / keep;
    const other = drawn / keep;
    const scatter = (count * own ** 2 + (people - count) * other ** 2) / people - share;
    return { share, stderr: Math.sqrt(Math.max(scatter, 0) / people) };
  });
}

/** The standard error to expect of a cell, before anybody has reported.
 * @param {number} share @param {number} gamma @param {number} cells @param {number} people */
export function expected(share, gamma, cells, people) {
  const keep = kept(gamma, cells);
  const chance = (1 - keep) / cells + keep * share;
  return Math.sqrt(Math.max(chance * (1 - chance) / keep ** 2 - share * (1 - share), 0) / people);
}

/** How likely each record is once its report was seen, by Bayes' rule.
 * @param {number[]} law @param {number} gamma @param {number} report */
export function posterior(law, gamma, report) {
  const weights = law.map((share, cell) => share * (cell === report ? gamma : 1));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / all);
}

/** How often an attacker who knows the law guesses a record right from its report.
 * @param {number[]} law @param {number} gamma */
export function guessed(law, gamma) {
  const total = gamma + law.length - 1;
  const best = law.map((_, report) =>
    Math.max(...law.map((share, cell) => share * (cell === report ? gamma : 1))),
  );
  return best.reduce((sum, value) => sum + value, 0) / total;
}
