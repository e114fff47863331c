// Package journal stores what happened in a session besides its bytes: when output reached which offset, how large the terminal
// was, who came, went and typed, and what state the agent was in.
//
// A journal is one file that only grows, next to the session's byte log. It is written in blocks of entries, each with a length,
// a checksum, and its own times and offsets. A block that a crash cut off is found and dropped when the file is opened, and
// everything before it stays valid. Entries wait in memory until somebody calls Flush: adding one is a few instructions under a
// mutex that is never held over a read or a write, so the terminal's data path may do it.
//
// Time marks are coalesced: everything that came within MarkEvery of a first piece shares its time. The more a journal has grown,
// the coarser its marks become, and at its cap it accepts nothing more.
package journal
