package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/bytelog"
)

// maxEnded is how many ended processes are remembered; beyond that the oldest are dropped, with their logs.
const maxEnded = 256

// writeRecord records the state of the process in a new file that replaces the old one, so that there is always a complete one.
// The returned function makes it survive a crash of the machine, for which nobody needs to wait: the process does not survive one
// either.
func (p *process) writeRecord() (sync func()) {
	b, err := json.Marshal(p.snapshot())
	if err != nil {
		return func() {}
	}
	dir := guest.ProcessDir(p.d.cfg.Dir, p.id)
	f, err := os.CreateTemp(dir, guest.RecordName+".*")
	if err == nil {
		if _, err = f.Write(b); err == nil {
			err = os.Rename(f.Name(), filepath.Join(dir, guest.RecordName))
		}
		if err != nil {
			_ = os.Remove(f.Name())
			_ = f.Close()
		}
	}
	if err != nil {
		// On a full disk the old record still has its block: better a record written over it than none.
		if oerr := overwrite(filepath.Join(dir, guest.RecordName), b); oerr != nil {
			p.d.cfg.Log.Warn("record of a process could not be written", "process_id", p.id, "error", err)
		}
		return func() {}
	}
	return func() {
		err := errors.Join(f.Sync(), f.Close(), atomicfile.SyncDir(dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.d.cfg.Log.Warn("record of a process could not be made durable", "process_id", p.id, "error", err)
		}
	}
}

// overwrite writes b over the beginning of a file, and blanks over the rest.
func overwrite(path string, b []byte) error {
	f, err := openOwn(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		b = append(b, bytes.Repeat([]byte(" "), int(max(0, info.Size()-int64(len(b)))))...)
		_, err = f.WriteAt(b, 0)
	}
	return errors.Join(err, f.Close())
}

// openOwn opens a file of the guest's own folder for writing. Programs may write there too: it follows no link, and accepts only
// a small regular file.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return nil, errors.Join(fmt.Errorf("%s is not a small regular file", filepath.Base(path)), err, f.Close())
	}
	return f, nil
}

// load reads what an earlier guest recorded. Its processes have ended with it: those that were still running are lost.
func (d *Daemon) load() error {
	dir := filepath.Join(d.cfg.Dir, "processes")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the guest's folder: %w", err)
	}
	for _, e := range entries {
		id := e.Name()
		info, err := guest.ReadProcessRecord(d.cfg.Dir, id)
		if err != nil {
			d.cfg.Log.Warn("record of a process cannot be used", "process_id", id, "error", err)
			continue
		}
		p := newProcess(d, id)
		p.info = info
		if info.State == guest.Running {
			p.info.State, p.info.Reason, p.info.EndedAt = guest.Exited, reasonLost, d.cfg.Now().UnixMilli()
		}
		for s := range info.Ends {
			l, err := bytelog.Open(d.logConfig(guest.ProcessSpec{ID: id}, s))
			if err != nil {
				d.cfg.Log.Warn("log of a process cannot be read", "process_id", id, "error", err)
				continue
			}
			l.Finish()
			p.logs[s] = l
		}
		close(p.ready)
		close(p.exited)
		close(p.done)
		d.procs[id] = p
	}
	return nil
}

// forgetOld makes room for another process by dropping those that ended first. The caller holds mu.
func (d *Daemon) forgetOld() {
	var ended []*process
	for _, p := range d.procs {
		if !p.running() {
			ended = append(ended, p)
		}
	}
	if len(ended) < maxEnded {
		return
	}
	slices.SortFunc(ended, func(a, b *process) int { return cmp.Compare(a.snapshot().EndedAt, b.snapshot().EndedAt) })
	for _, p := range ended[:len(ended)-maxEnded+1] {
		d.forget(p)
	}
}

// forget drops an ended process with everything stored about it. The caller holds mu.
func (d *Daemon) forget(p *process) {
	delete(d.procs, p.id)
	if err := os.RemoveAll(guest.ProcessDir(d.cfg.Dir, p.id)); err != nil {
		d.cfg.Log.Warn("folder of a process could not be removed", "process_id", p.id, "error", err)
	}
}
