// Package journal keeps what happened beside the bytes of a session: when output reached which offset, how large the terminal
// was, who came, went and typed, and what state the agent was in.
//
// A journal is one file that only grows, beside the session's byte log. It is written in blocks of entries, each with a length
// and a checksum and with times and offsets of its own, so a block that was cut by a crash is found and dropped when the file
// is opened, and everything before it holds. Entries wait in memory until somebody calls Flush: adding one is a few
// instructions under a mutex that is never held over a read or a write, so the path of a terminal's bytes may do it.
//
// Time marks are coalesced: everything that came within MarkEvery of a first piece is told as having come with it. The more a
// journal has grown, the coarser its marks become, and at its cap it takes nothing more.
package journal
