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
//   - Erasing to the end of a line ends the wrap of the line below on the screen, not that of a line in the scrollback.
//   - A hard reset also forgets what viewers forget only when they are made anew: colours, line feed mode, a hidden cursor.
//
// It is written for speed: a table-driven parser, plain bytes and ordinary control sequences in loops of their own, eight bytes
// a cell with styles told once, lines in a ring, and a scrollback in compact form. Nothing is allocated per cell or line once
// buffers have grown. Memory is bounded whatever arrives.
package screen
