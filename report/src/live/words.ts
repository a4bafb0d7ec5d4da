// Sentences on ranks and their calls, as `mpisee-through top` writes them.

import * as format from "../format";
import type { Deadlock, Partner, Place, Waiting, With } from "./data";
import { duration } from "./parts";

export function deadlock({ certain, cycle, behind }: Deadlock): string {
  const all = cycle.map((place) => `rank ${place.ranks} in ${callText(place)}`).join("; ");
  const others = behind === "" ? "" : `; ${behind} wait for them`;
  return `${certain ? "Deadlock" : "Deadlock?"}: these ranks ${certain ? "" : "may "}wait for each other: ${all}${others}`;
}

/** Who is in a collective, who has left it, and who is missing. */
export function waiting(hang: Waiting): string {
  const which = hang.number === null ? "" : ` (call ${hang.number})`;
  const parts = [`${hang.call} on ${hang.comm}${which}, for ${duration(hang.for_s)}: in it ${hang.inside}`];
  if (hang.left !== "") parts.push(`through it ${hang.left}`);
  if (hang.missing.length > 0) parts.push(`missing ${hang.missing.map((place) => `${place.ranks} (${whereabouts(place)})`).join(", ")}`);
  const unseen = [hang.elsewhere, hang.elided > 0 ? `${hang.elided} that are not listed` : ""].filter((text) => text !== "");
  if (unseen.length > 0) parts.push(`not seen ${unseen.join(" and ")}`);
  if (hang.foreign > 0) parts.push(`${format.counted(hang.foreign, "member")} of another world, of which nothing is known here`);
  return parts.join("; ");
}

/** `in MPI_Recv from 3 tag 4 on W for 12 s`, `ended, in no MPI call` */
function whereabouts(place: Place): string {
  if (place.call === null && place.ended) return "ended, in no MPI call";
  if (place.ended) return `ended in ${callText(place)}`;
  const for_s = place.call === null ? (place.idle_s ?? null) : place.for_s;
  return `in ${callText(place)}${for_s === null ? "" : ` for ${duration(for_s)}`}`;
}

/** `MPI_Recv from 3 tag 4 on W` */
export function callText(place: Place): string {
  if (place.call === null) return "no MPI call";
  const words = [place.call];
  if (place.with) words.push(withText(place.with, place.comm === "W"));
  if (place.comm !== null) words.push(`on ${place.comm}`);
  else if (place.call !== "MPI_Abort") words.push("on a communicator that is not known");
  if (place.number !== null) words.push(`(call ${place.number})`);
  return words.join(" ");
}

/** With whom a call communicates: `from 3, any tag`, `(3 requests, first a receive from 1)` */
function withText({ to, from, tag, any_tag, requests, different }: With, isWorld: boolean): string {
  if (different !== undefined) return `(${different} different peers or tags)`;
  if (requests !== undefined) {
    const first = to !== undefined ? `send to ${partner(to, isWorld)}` : from !== undefined ? `receive from ${partner(from, isWorld)}` : null;
    if (first === null) return `(${format.counted(requests, "request")})`;
    return requests === 1 ? `(${first})` : `(${requests} requests, first a ${first})`;
  }
  const ends = [];
  if (to !== undefined) ends.push(`to ${partner(to, isWorld)}`);
  if (from !== undefined) ends.push(`from ${partner(from, isWorld)}`);
  if (any_tag) ends.push("any tag");
  return ends.join(", ") + (tag === undefined ? "" : ` tag ${tag}`);
}

/** `12`, on another communicator than the world `3 (rank 12 of W)` */
function partner(of: Partner, isWorld: boolean): string {
  if (of === "MPI_ANY_SOURCE") return "any rank";
  if (typeof of === "string") return of;
  return isWorld || of.world_rank === null ? String(of.rank) : `${of.rank} (rank ${of.world_rank} of W)`;
}

/** How many ranks a text such as `0-3,7,8-62:2` stands for. */
export function ranksIn(text: string): number {
  const parts = text === "" ? [] : text.split(",");
  return parts.reduce((sum, part) => {
    const [range = "", step = "1"] = part.split(":");
    const [first = 0, last = first] = range.split("-").map(Number);
    return sum + Math.floor((last - first) / Number(step)) + 1;
  }, 0);
}
