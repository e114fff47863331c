// Package screen is a model of a terminal's screen, for the server: it reads what programs print and knows at every moment
// what a person would see. It writes snapshots from which a viewer's terminal continues as if it had read everything, gives
// the screen as text, and answers what programs ask a terminal when nobody else does.
//
// The viewers' terminal is xterm.js with its grapheme addon, so that is what the model follows, odd corners included: cell for
// cell, the two hold the same after the same bytes. Where xterm.js does what no terminal should, the model does what is right:
//
//   - A character cut between two writes after a byte such as E2 80 is put together (xterm.js loses it). Snapshot ends at a
//     whole character for the same reason; see Held.
//   - A wide character cut in half by a narrower screen becomes a blank cell (xterm.js keeps half of it).
//   - With wrap-around off, the rest of a wide character that is overwritten in the last column goes away.
//   - CPR tells the last column while a wrap is pending (xterm.js: one more) and counts from the margin in origin mode.
//   - A code too long to be meant (32 parts of one grapheme, 8 KiB of link) is dropped (xterm.js keeps it). Repeat counts
//     end at one screen (xterm.js tries).
//   - Erasing from the beginning of the screen ends the wrap of the line below the cursor, not that of a line counted from the
//     oldest one (which may be missing: xterm.js then throws). The alignment test fills the screen and nothing else.
//   - Graphemes and the oldest lines stay what they were when lines are wrapped anew (xterm.js mixes some up).
//   - A narrower alternate screen is cut (xterm.js keeps the rest out of sight, and shifts it in again).
//   - A hard reset also forgets what viewers forget only when they are made anew: colours, line feed mode, a hidden cursor.
//
// A snapshot cannot leave a viewer in a few states that only rare sequences lead to: the cursor waiting to wrap behind an empty
// cell (it becomes a space), the second half of no character (an empty cell), a pen marked as underlined in no way, a cursor
// outside the scroll region in origin mode on the alternate screen, a character set that came with a cursor restored on the
// other screen, and, on a screen of one row or two
// columns, some empty cells that a wide character left behind.
//
// It is written for speed: a table-driven parser, plain bytes and ordinary control sequences in loops of their own, eight bytes
// a cell with styles told once, lines in a ring, and a scrollback in compact form. Nothing is allocated per cell or line once
// buffers have grown. Memory is bounded whatever arrives.
package screen
