package workspaces

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// The ignored files a project wants kept go along with a workspace, also to and from places with a disk of their own. A parcel brings them
// there. Each snapshot that asks the sandbox for them leaves the newest of them at a ref, and when the sandbox has ended, however that was,
// they are put into the worktree on this server: the next place has them from there, be it another folder of this server or a parcel again.
// What can be brought home can be sent, and no more: the bounds are those of askIgnored.

// farIgnored holds the ignored files that a far workspace's sandbox had when it was asked last. It ends with the sandbox.
func farIgnored(workspaceID string) string { return "refs/parawork/far/" + workspaceID + "/ignored" }

// sentFile says what of the ignored files was sent to a far workspace's sandbox: git's names of them, by path in wire form.
func (s *Service) sentFile(workspaceID string) string {
	return filepath.Join(s.boxDir(workspaceID), "ignored-sent")
}

func (s *Service) writeSent(workspaceID string, sent map[string]string) error {
	b, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	return writeOnce(s.sentFile(workspaceID), string(b))
}

// readSent reads them by raw paths.
func (s *Service) readSent(workspaceID string) map[string]string {
	sent, byPath := make(map[string]string), make(map[string]string)
	b, err := os.ReadFile(s.sentFile(workspaceID))
	if err != nil || json.Unmarshal(b, &byPath) != nil {
		return sent
	}
	for enc, oid := range byPath {
		sent[guest.DecodePath(enc)] = oid
	}
	return sent
}

// chosenFile is an ignored file that goes along.
type chosenFile struct {
	name string // raw bytes
	size int64
	oid  string // git's name of what is in it, where it was read
}

// chosenFiles are the ignored files a project wants kept, as far as they go along to or from a place with a disk of its own.
type chosenFiles struct {
	files []chosenFile
	left  []Missing // those that do not, and why
}

func (c chosenFiles) bytes() (sum int64) {
	for _, f := range c.files {
		sum += f.size
	}
	return sum
}

// take adds a file, or names it where the bounds leave it out.
func (c *chosenFiles) take(f chosenFile) {
	switch {
	case f.size > farIgnoredFile:
		c.leave(f, fmt.Sprintf("It is larger than %d MB.", farIgnoredFile>>20))
	case len(c.files) >= farIgnoredCount:
		c.leave(f, fmt.Sprintf("At most %d files go along.", farIgnoredCount))
	case c.bytes()+f.size > farIgnoredTotal:
		c.leave(f, fmt.Sprintf("At most %d MB go along.", farIgnoredTotal>>20))
	default:
		c.files = append(c.files, f)
	}
}

func (c *chosenFiles) leave(f chosenFile, why string) {
	c.left = append(c.left, Missing{Path: guest.EncodePath(f.name), Reason: why, Size: f.size})
}

// chosenHere finds them in the worktree on this server, which is at head. read has each of them read, so that git's name of it is known, and
// none goes along that has a secret's bytes.
func (s *Service) chosenHere(ctx context.Context, p Project, w Workspace, head string, read bool) (c chosenFiles, err error) {
	if len(p.KeepIgnored) == 0 {
		return c, nil
	}
	t := taking{s: s, p: p, w: w, head: head}
	if t.secrets, err = s.SecretFiles(ctx, w.ID); err != nil {
		return c, err
	}
	if t.desk, err = s.deskOf(ctx, p); err != nil {
		return c, err
	}
	defer func() { _ = t.desk.Close() }()
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return c, diskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	names, err := t.listIgnored(ctx, root)
	if err != nil {
		return c, err
	}
	excluded, err := excludedNames(p.GitDir)
	if err != nil {
		return c, err
	}
	c.left = t.missing
	read = read || len(t.secrets.Blobs) > 0
	for _, name := range names {
		f, fi, err := plainFile(root, name)
		if err != nil || fi == nil {
			if err != nil {
				c.leave(chosenFile{name: name}, "It could not be read.")
			}
			continue
		}
		one := chosenFile{name: name, size: fi.Size()}
		switch {
		case excluded[ExcludePattern(name)]:
			c.leave(one, excludedMissing)
		case t.secrets.Has(name, ""):
			c.leave(one, secretMissing)
		case foreign(fi, s.boxOwner(w.ID)):
			c.leave(one, foreignMissing)
		default:
			if read && one.size <= farIgnoredFile {
				one.oid, err = blobOf(f, head, one.size)
			}
			switch {
			case err != nil:
				c.leave(one, "It was written to while it was read.")
			case t.secrets.Has("", one.oid):
				c.leave(one, secretMissing)
			default:
				c.take(one)
			}
		}
		f.Close()
	}
	return c, nil
}

// plainFile opens a regular file below root; no file and no error where there is another kind of thing, or nothing.
func plainFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	if !ignored.PlainParents(root, name) {
		return nil, nil, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// blobOf is git's name of what is in a file, in the repository's kind of names, of which like is one.
func blobOf(f io.Reader, like string, size int64) (string, error) {
	h := blobHash(like, size)
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// sendIgnored adds the ignored files that go along to what a parcel holds, and takes files of secrets out of those the project copies.
func (s *Service) sendIgnored(ctx context.Context, p Project, w Workspace, head string, st *worktreeState) (sent map[string]string, err error) {
	excluded, err := excludedNames(p.GitDir)
	if err != nil {
		return nil, err
	}
	secrets, err := s.SecretFiles(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	st.ignored = slices.DeleteFunc(st.ignored, func(name string) bool { return excluded[ExcludePattern(name)] || secrets.Has(name, "") })
	c, err := s.chosenHere(ctx, p, w, head, true)
	if err != nil {
		return nil, err
	}
	sent = make(map[string]string, len(c.files))
	for _, f := range c.files {
		st.ignored = append(st.ignored, f.name)
		sent[guest.EncodePath(f.name)] = f.oid
	}
	return sent, nil
}

// sizesScript prints the size of each file it is given, - of what is no plain file.
const sizesScript = `for f; do if [ -f "$f" ] && [ ! -L "$f" ]; then wc -c < "$f" || echo -; else echo -; fi; done`

// chosenThere finds them in a sandbox with a disk of its own, without reading them.
func (s *Service) chosenThere(ctx context.Context, p Project, w Workspace, b *box) (c chosenFiles, err error) {
	if len(p.KeepIgnored) == 0 {
		return c, nil
	}
	names, err := b.ignoredNames(ctx, p.KeepIgnored)
	if err != nil {
		return c, err
	}
	excluded, err := excludedNames(p.GitDir)
	if err != nil {
		return c, err
	}
	secrets, err := s.SecretFiles(ctx, w.ID)
	if err != nil {
		return c, err
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return badName(n) || !filepath.IsLocal(n) })
	for piece := range slices.Chunk(names, 500) {
		argv := []string{"/bin/sh", "-c", sizesScript, "sizes"}
		for _, n := range piece {
			argv = append(argv, "./"+n)
		}
		r, err := b.run(ctx, executors.BoxCommand{Argv: argv})
		if err != nil {
			return c, err
		}
		sizes := strings.Fields(string(r.Stdout))
		if r.ExitCode != 0 || len(sizes) != len(piece) {
			return c, &boxError{sub: "wc", result: r}
		}
		for i, name := range piece {
			size, err := strconv.ParseInt(sizes[i], 10, 64)
			if err != nil || size < 0 {
				continue
			}
			one := chosenFile{name: name, size: size}
			switch {
			case excluded[ExcludePattern(name)]:
				c.leave(one, excludedMissing)
			case secrets.Has(name, ""):
				c.leave(one, secretMissing)
			default:
				c.take(one)
			}
		}
	}
	return c, nil
}

// noteFarIgnored has the ref name what the sandbox of a far workspace had just now.
func (t *taking) noteFarIgnored(ctx context.Context, commit string) error {
	if t.f.there == nil || t.f.there.failed != "" || !t.s.far(t.w.ID) {
		return nil
	}
	edit := refDrop(farIgnored(t.w.ID))
	if commit != "" {
		edit = refSet(farIgnored(t.w.ID), commit)
	}
	return t.s.dropRefs(ctx, t.p, []refEdit{edit})
}

// lastIgnored is what the sandbox of a far workspace had when it was asked last; "" = it was not asked.
func (t *taking) lastIgnored(ctx context.Context) (commit string, n int, err error) {
	if commit, err = t.s.commitOf(ctx, t.p.GitDir, farIgnored(t.w.ID)); err != nil || commit == "" {
		return "", 0, err
	}
	files, err := t.s.CommitFiles(ctx, t.p.ID, commit, "")
	return commit, len(files), err
}

// ignoredHome brings the ignored files of a sandbox that has ended into the worktree on this server. Those that lie there as they were sent
// give way to what became of them; what else has a name of theirs is left as it is, and told of.
func (s *Service) ignoredHome(ctx context.Context, p Project, w Workspace) error {
	commit, err := s.commitOf(ctx, p.GitDir, farIgnored(w.ID))
	if err != nil || commit == "" {
		return err
	}
	files, err := s.ignoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	left, err := s.putIgnored(ctx, p, w, files, s.readSent(w.ID))
	if err != nil {
		return err
	}
	if len(left) > 0 {
		s.note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "ignored.left", Data: map[string]any{"paths": encodePaths(left)},
			Text: fmt.Sprintf("%s of the sandbox did not take the place of others on this server: %s. The timeline has both.", plural(len(left), "ignored file", "ignored files"), someNames(encodePaths(left)))})
	}
	return nil
}

// putIgnored writes ignored files into the worktree on this server where nothing lies, or what was sent from there; left are the others.
func (s *Service) putIgnored(ctx context.Context, p Project, w Workspace, files []ChangedFile, sent map[string]string) (left []string, err error) {
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return nil, diskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	to := hereFiles{root, s.boxOwner(w.ID)}
	var put []hostgit.TreeFile
	by := make(map[string]ChangedFile)
	for _, f := range files {
		is := func(blob string) (same bool, err error) { // "" = nothing
			f.OldBlob = blob
			_, same, err = s.stillAs(ctx, p, root, f)
			return same, err
		}
		had := sent[f.Path]
		ok, err := is("")
		if err == nil && !ok {
			if ok, err = is(f.NewBlob); ok && (had == "" || sameMode(root, f)) {
				continue // it is there
			}
		}
		if err == nil && !ok && had != "" {
			ok, err = is(had)
		}
		switch {
		case err != nil:
			return nil, err
		case !ok:
			left = append(left, f.Path)
		default:
			put = append(put, hostgit.TreeFile{Path: f.Path, OID: f.NewBlob, Size: f.Size})
			by[f.Path] = f
		}
	}
	err = s.CommitBlobs(ctx, p.ID, put, func(c hostgit.TreeFile, r io.Reader) error {
		f := by[c.Path]
		still := func() (bool, error) { _, same, err := s.stillAs(ctx, p, root, f); return same, err }
		err := to.put(ctx, f.Path, f.Mode, r, lies{still: still})
		if errors.Is(err, errInTheWay) {
			left = append(left, f.Path)
			return nil
		}
		if err != nil {
			return fmt.Errorf("restoring %q: %w", guest.EncodePath(f.Path), err)
		}
		return nil
	})
	return left, err
}

// sameMode reports whether a file can be run where another one can.
func sameMode(root *os.Root, f ChangedFile) bool {
	fi, err := root.Lstat(f.Path)
	return err == nil && fi.Mode().IsRegular() && (fi.Mode()&0o100 != 0) == (f.Mode == "100755")
}

// forgetIgnored lets go of what is known of the ignored files in a sandbox that has ended.
func (s *Service) forgetIgnored(ctx context.Context, p Project, workspaceID string) error {
	commit, err := s.commitOf(ctx, p.GitDir, farIgnored(workspaceID))
	if err == nil && commit != "" {
		err = s.dropRefs(ctx, p, []refEdit{refDrop(farIgnored(workspaceID))})
	}
	return err
}

// readIgnoredThere asks a sandbox that is about to be left for good for its ignored files, and refuses to leave it where they cannot be had.
func (s *Service) readIgnoredThere(ctx context.Context, p Project, w Workspace) (*ignoredThere, error) {
	there := s.askIgnored(ctx, p, w, SnapKept)
	if there == nil && s.far(w.ID) && wantsIgnored(p, SnapKept) {
		there = &ignoredThere{failed: "The sandbox does not answer."}
	}
	if there != nil && there.failed != "" {
		return nil, fault.New(fault.Unavailable, "ignored_not_home", "The ignored files that the project keeps could not be brought from the sandbox: %s Try again, or have the project keep none.", there.failed)
	}
	return there, nil
}

// words say what became of the files.
func (t *ignoredThere) words() string {
	if t == nil || len(t.files)+len(t.missing) == 0 {
		return ""
	}
	out := plural(len(t.files), "ignored file comes", "ignored files come") + " along."
	if len(t.missing) > 0 {
		out += " Left behind: " + missingWords(t.missing) + "."
	}
	return out
}

// missingWords name files and why they are left out, those with the same reason together.
func missingWords(list []Missing) string {
	var whys []string
	by := make(map[string][]string)
	for _, m := range list {
		why := strings.TrimSuffix(m.Reason, ".")
		if by[why] == nil {
			whys = append(whys, why)
		}
		name := m.Path
		if m.Size > 0 {
			name += " (" + sizeWords(m.Size) + ")"
		}
		by[why] = append(by[why], name)
	}
	var out []string
	for _, why := range whys {
		out = append(out, someNames(by[why])+": "+lowerFirst(why))
	}
	return strings.Join(out, "; ")
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// sizeWords is a size as people read it.
func sizeWords(n int64) string {
	switch {
	case n < 1<<10:
		return plural(int(n), "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// shownNames is how many files are named to people.
const shownNames = 4

// someNames names a few files, in wire form, for people.
func someNames(names []string) string {
	shown := names[:min(len(names), shownNames)]
	out := strings.Join(shown, ", ")
	if n := len(names) - len(shown); n > 0 {
		out += " and " + plural(n, "other", "others")
	}
	return out
}
