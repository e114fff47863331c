package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// fileStat distinguishes one state of a file from another without reading it.
type fileStat struct {
	dev, ino     uint64
	mode         uint32
	size         int64
	mtime, ctime int64 // ns
	closed       bool  // this program may not read the file, as far as known
}

// lstat stats path itself, never the target of a link.
func lstat(path string) (fileStat, error) {
	var st unix.Stat_t
	for {
		err := unix.Lstat(path, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fileStat{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		return fromStat(&st), nil
	}
}

// fstat stats an open file.
func fstat(fd uintptr) (fileStat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return fileStat{}, err
	}
	return fromStat(&st), nil
}

func fromStat(st *unix.Stat_t) fileStat {
	return fileStat{
		dev: uint64(st.Dev), ino: uint64(st.Ino), mode: uint32(st.Mode), size: st.Size,
		mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim),
	}
}

// stamp identifies the state of a file without revealing more.
func (s fileStat) stamp() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d %d", s.dev, s.ino, s.size, s.mtime, s.ctime))
	return hex.EncodeToString(sum[:8])
}

func (s fileStat) exists() bool  { return s.mode != 0 }
func (s fileStat) regular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }
func (s fileStat) link() bool    { return s.mode&unix.S_IFMT == unix.S_IFLNK }
func (s fileStat) dir() bool     { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// gitMode is the mode git would record, "" for what git does not track.
func (s fileStat) gitMode() string {
	switch {
	case s.link():
		return "120000"
	case s.regular() && s.mode&0o100 != 0:
		return "100755"
	case s.regular():
		return "100644"
	case s.dir():
		return "040000"
	}
	return ""
}

// racy reports whether the file was changed so shortly before at (ns) that a further write might leave the same times: the clock
// of file times ticks only every few milliseconds.
func (s fileStat) racy(at int64) bool {
	const tick = int64(clockTick)
	return s.exists() && (s.mtime > at-tick || s.ctime > at-tick)
}
