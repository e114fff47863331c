package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/arrange"
	"github.com/parawork/parawork/internal/fault"
)

const (
	// maxList is how many entries of a folder are listed.
	maxList = 10_000
	// maxListBytes bounds their JSON.
	maxListBytes = guest.MaxJSON * 3 / 4
	// small is the size up to which a file is read before it is sent; a larger one is read twice: for its hash, and to be sent.
	small = 1 << 20
)

func (d *Daemon) serveStat(w http.ResponseWriter, r *http.Request) error {
	wire := r.URL.Query().Get("path")
	raw, err := inRoot(wire, true)
	if err != nil {
		return err
	}
	info, err := d.root.Lstat(raw)
	if err != nil {
		return fromDisk(err, wire)
	}
	answer(w, http.StatusOK, d.fileInfo(raw, info))
	return nil
}

// serveReadFile sends a file whose hash is in the header. It cuts off a file that changes meanwhile.
func (d *Daemon) serveReadFile(w http.ResponseWriter, r *http.Request) error {
	wire := r.URL.Query().Get("path")
	raw, err := inRoot(wire, false)
	if err != nil {
		return err
	}
	most, err := number(r, "max")
	if err != nil {
		return err
	}
	f, stat, err := d.open(raw, wire)
	if err != nil {
		return err
	}
	defer f.Close()
	info := d.fileInfo(raw, stat)
	if most > 0 && info.Size > most {
		return fault.New(fault.TooLarge, "file_too_large", "%q has %d bytes, more than the %d that are read here.", wire, info.Size, most)
	}
	h := sha256.New()
	var content io.Reader
	if info.Size <= small {
		b, err := io.ReadAll(io.LimitReader(f, small+1))
		if err != nil {
			return fmt.Errorf("reading the file: %w", err)
		}
		if len(b) > small {
			return errMoved(wire)
		}
		h.Write(b)
		info.Size, content = int64(len(b)), bytes.NewReader(b)
	} else {
		n, err := io.Copy(h, io.LimitReader(f, info.Size))
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			return fmt.Errorf("reading the file: %w", err)
		}
		if n != info.Size {
			return errMoved(wire)
		}
		content = io.LimitReader(f, info.Size)
	}
	info.Hash = sum(h)
	head, err := json.Marshal(info)
	if err != nil {
		panic(err) // our own types always encode
	}
	w.Header().Set(guest.HeaderFile, asciiJSON(head))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
	return sendFile(w, content, info)
}

func errMoved(wire string) error {
	return fault.New(fault.Conflict, "file_changing", "%q is being written. Try again.", wire)
}

// sendFile sends content, and withholds its end unless it matches the hash in the header.
func sendFile(w http.ResponseWriter, content io.Reader, info guest.FileInfo) error {
	buf := batches.Get().(*[batch]byte)
	defer batches.Put(buf)
	again := sha256.New()
	var sent int64
	for sent < info.Size {
		n, err := io.ReadFull(content, buf[:min(batch, info.Size-sent)])
		again.Write(buf[:n])
		sent += int64(n)
		if err != nil || (sent == info.Size && sum(again) != info.Hash) {
			return errCut
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return errCut
		}
	}
	return nil
}

// asciiJSON escapes what a header may not carry.
func asciiJSON(b []byte) string {
	var out []byte
	for _, r := range string(b) {
		switch {
		case r < 0x80:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return string(out)
}

func (d *Daemon) serveWriteFile(w http.ResponseWriter, r *http.Request) error {
	mode, err := number(r, "mode")
	if err != nil {
		return err
	}
	if mode > 0o777 {
		return fault.New(fault.Invalid, "invalid_mode", "The mode may have only permission bits.")
	}
	info, err := d.write(r.URL.Query().Get("path"), r.Body, r.Header.Get(guest.HeaderIfMatch), r.URL.Query().Get("new") != "", fs.FileMode(mode))
	if err != nil {
		return err
	}
	if d.cfg.Changes != nil {
		d.cfg.Changes.Hint()
	}
	answer(w, http.StatusOK, info)
	return nil
}

func (d *Daemon) serveRemoveFile(w http.ResponseWriter, r *http.Request) error {
	wire := r.URL.Query().Get("path")
	raw, err := inRoot(wire, false)
	if err != nil {
		return err
	}
	if err := d.match(raw, wire, r.Header.Get(guest.HeaderIfMatch)); err != nil {
		return err
	}
	remove := d.root.Remove
	if r.URL.Query().Get("all") != "" {
		remove = d.root.RemoveAll
	}
	if err := remove(raw); err != nil {
		return fromDisk(err, wire)
	}
	return done(w)
}

func (d *Daemon) serveMkdir(w http.ResponseWriter, r *http.Request) error {
	wire := r.URL.Query().Get("path")
	raw, err := inRoot(wire, false)
	if err != nil {
		return err
	}
	if err := d.root.MkdirAll(raw, 0o755); err != nil {
		return fromDisk(err, wire)
	}
	return done(w)
}

// serveList lists a folder, without .git, sorted by name. Entries beyond the limits are left out.
func (d *Daemon) serveList(w http.ResponseWriter, r *http.Request) error {
	wire := r.URL.Query().Get("path")
	raw, err := inRoot(wire, true)
	if err != nil {
		return err
	}
	f, err := d.root.OpenFile(raw, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return fromDisk(err, wire)
	}
	defer f.Close()
	names, err := f.Readdirnames(maxList + 2) // room for one too many, and .git
	if err != nil && !errors.Is(err, io.EOF) {
		return fromDisk(err, wire)
	}
	out := guest.List[guest.FileInfo]{Items: []guest.FileInfo{}, Truncated: len(names) == maxList+2}
	names = slices.DeleteFunc(names, inGit)
	slices.Sort(names)
	if len(names) > maxList {
		names, out.Truncated = names[:maxList], true
	}
	var ignored map[string]bool
	if r.URL.Query().Get("ignored") != "" {
		ignored = d.search.Ignored(r.Context(), raw, names)
	}
	size := 0
	for _, name := range names {
		at := path.Join(raw, name)
		info, err := d.root.Lstat(at)
		if err != nil {
			continue // it was deleted meanwhile
		}
		item := d.fileInfo(at, info)
		item.Ignored = ignored[name]
		if size += 160 + 6*(len(item.Path)+len(item.Name)+len(item.Link))/2; size > maxListBytes {
			out.Truncated = true
			break
		}
		out.Items = append(out.Items, item)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// serveMove gives a file, a link or a folder another path. Missing folders on the way are made; nothing is ever replaced.
func serveMove(d *Daemon) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		from, to := r.URL.Query().Get("path"), r.URL.Query().Get("to")
		raw, err := inRoot(from, false)
		if err != nil {
			return err
		}
		target, err := inRoot(to, false)
		if err != nil {
			return err
		}
		info, err := d.root.Lstat(raw)
		if err != nil {
			return fromDisk(err, from)
		}
		if info.IsDir() {
			if strings.HasPrefix(target, raw+"/") {
				return fault.New(fault.Invalid, "invalid_path", "A folder cannot be moved into itself.")
			}
			// A submodule or a worktree knows its place by absolute paths.
			if _, err := d.root.Lstat(path.Join(raw, ".git")); err == nil {
				return fault.New(fault.Conflict, "git_directory", "%q is a git repository of its own. Move it in a terminal.", from)
			}
		}
		if dir := path.Dir(target); dir != "." {
			if err := d.root.MkdirAll(dir, 0o755); err != nil {
				return fromDisk(err, to)
			}
		}
		if err := arrange.Rename(d.root, raw, target); errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
			return errThere(to)
		} else if err != nil {
			return fromDisk(err, from)
		}
		if d.cfg.Changes != nil {
			d.cfg.Changes.Hint()
		}
		if info, err = d.root.Lstat(target); err != nil {
			return fromDisk(err, to)
		}
		answer(w, http.StatusOK, d.fileInfo(target, info))
		return nil
	}
}
