// What the JavaScript client makes of programs: a line of JSON for each of the jobs in a file, from
// one of them on. Run as: node hostile.mjs FOLDER-OF-THE-CLIENT FILE FIRST
import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file, first] = process.argv.slice(2);
const { Draws, Program, SfumatoError } = await import(pathToFileURL(`${folder}/program.js`).href);

/** Numbers that JSON has no words for. */
const revived = (_, value) => (value && "$number" in Object(value) ? Number(value.$number) : value);

/** Bytes that are the same everywhere: so many of one kind, and then a congruential generator's. */
function stream({ byte, count, seed }) {
  let [state, left] = [seed, count];
  return () =>
    Uint8Array.from({ length: 7 }, () => {
      if (left-- > 0) return byte;
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 24;
    });
}

function said(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof SfumatoError) return { refused: error.message };
    return { broke: `${error?.name}: ${error?.message}`.slice(0, 200) };
  }
}

const jobs = readFileSync(file, "utf8").split("\n").filter(Boolean);
for (const line of jobs.slice(Number(first))) {
  const job = line.includes("$number") ? JSON.parse(line, revived) : JSON.parse(line);
  const begun = process.cpuUsage();
  const answer = said(() => {
    const program = new Program(job.program);
    const asIs = program.sentAsIs;
    const values = asIs.map(([place]) => [place, "value"]);
    const gammas = [[], asIs, values, ...asIs.map((each) => [each])].map((named) =>
      program.gammaBeside(named).map((part) => part.toString(16)),
    );
    return { asIs, gammas, program };
  });
  const { program, ...rest } = answer;
  if (program)
    rest.reports = job.records.map((record) =>
      job.streams.map((bytes) => said(() => program.randomise(record, new Draws(stream(bytes))))),
    );
  rest.seconds = process.cpuUsage(begun).user / 1e6;
  writeSync(1, JSON.stringify(rest) + "\n");
}
