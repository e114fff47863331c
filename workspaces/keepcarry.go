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

// RemoteIgnoredRef holds the ignored files that a far workspace's sandbox had when it was asked last. It ends with the sandbox.
func RemoteIgnoredRef(workspaceID string) string {
	return "refs/parawork/far/" + workspaceID + "/ignored"
}

// sentFile says what of the ignored files was sent to a far workspace's sandbox: git's names of them, by path in wire form.
func (s *Service) sentFile(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "ignored-sent")
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

// ChosenFile is an ignored file that goes along.
type ChosenFile struct {
	Name string // raw bytes
	Size int64
	oid  string // git's name of what is in it, where it was read
}

// ChosenFiles are the ignored files a project wants kept, as far as they go along to or from a place with a disk of its own.
type ChosenFiles struct {
	Files []ChosenFile
	Left  []Missing // those that do not, and why
}

func (c ChosenFiles) Bytes() (sum int64) {
	for _, f := range c.Files {
		sum += f.Size
	}
	return sum
}

// Take adds a file, or names it where the bounds leave it out.
func (c *ChosenFiles) Take(f ChosenFile) {
	switch {
	case f.Size > farIgnoredFile:
		c.leave(f, fmt.Sprintf("It is larger than %d MB.", farIgnoredFile>>20))
	case len(c.Files) >= farIgnoredCount:
		c.leave(f, fmt.Sprintf("At most %d files go along.", farIgnoredCount))
	case c.Bytes()+f.Size > farIgnoredTotal:
		c.leave(f, fmt.Sprintf("At most %d MB go along.", farIgnoredTotal>>20))
	default:
		c.Files = append(c.Files, f)
	}
}

func (c *ChosenFiles) leave(f ChosenFile, why string) {
	c.Left = append(c.Left, Missing{Path: guest.EncodePath(f.Name), Reason: why, Size: f.Size})
}

// ChosenLocal finds them in the worktree on this server, which is at head. read has each of them read, so that git's name of it is known, and
// none goes along that has a secret's bytes.
func (s *Service) ChosenLocal(ctx context.Context, p Project, w Workspace, head string, read bool) (c ChosenFiles, err error) {
	if len(p.KeepIgnored) == 0 {
		return c, nil
	}
	t := taking{s: s, p: p, w: w, head: head}
	if t.secrets, err = s.SecretFiles(ctx, w.ID); err != nil {
		return c, err
	}
	if t.desk, err = s.ScratchOf(ctx, p); err != nil {
		return c, err
	}
	defer func() { _ = t.desk.Close() }()
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return c, DiskFault(err, "Opening the workspace's folder")
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
	c.Left = t.missing
	read = read || len(t.secrets.Blobs) > 0
	for _, name := range names {
		f, fi, err := plainFile(root, name)
		if err != nil || fi == nil {
			if err != nil {
				c.leave(ChosenFile{Name: name}, "It could not be read.")
			}
			continue
		}
		one := ChosenFile{Name: name, Size: fi.Size()}
		switch {
		case excluded[ExcludePattern(name)]:
			c.leave(one, excludedMissing)
		case t.secrets.Has(name, ""):
			c.leave(one, secretMissing)
		case foreign(fi, s.boxOwner(w.ID)):
			c.leave(one, foreignMissing)
		default:
			if read && one.Size <= farIgnoredFile {
				one.oid, err = blobOf(f, head, one.Size)
			}
			switch {
			case err != nil:
				c.leave(one, "It was written to while it was read.")
			case t.secrets.Has("", one.oid):
				c.leave(one, secretMissing)
			default:
				c.Take(one)
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
	c, err := s.ChosenLocal(ctx, p, w, head, true)
	if err != nil {
		return nil, err
	}
	sent = make(map[string]string, len(c.Files))
	for _, f := range c.Files {
		st.ignored = append(st.ignored, f.Name)
		sent[guest.EncodePath(f.Name)] = f.oid
	}
	return sent, nil
}

// sizesScript prints the size of each file it is given, - of what is no plain file.
const sizesScript = `for f; do if [ -f "$f" ] && [ ! -L "$f" ]; then wc -c < "$f" || echo -; else echo -; fi; done`

// ChosenRemote finds them in a sandbox with a disk of its own, without reading them.
func (s *Service) ChosenRemote(ctx context.Context, p Project, w Workspace, b *Sandbox) (c ChosenFiles, err error) {
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
			one := ChosenFile{Name: name, Size: size}
			switch {
			case excluded[ExcludePattern(name)]:
				c.leave(one, excludedMissing)
			case secrets.Has(name, ""):
				c.leave(one, secretMissing)
			default:
				c.Take(one)
			}
		}
	}
	return c, nil
}

// noteFarIgnored has the ref name what the sandbox of a far workspace had just now.
func (t *taking) noteFarIgnored(ctx context.Context, commit string) error {
	if t.f.Ignored == nil || t.f.Ignored.failed != "" || !t.s.Remote(t.w.ID) {
		return nil
	}
	edit := refDrop(RemoteIgnoredRef(t.w.ID))
	if commit != "" {
		edit = RefSet(RemoteIgnoredRef(t.w.ID), commit)
	}
	return t.s.dropRefs(ctx, t.p, []RefEdit{edit})
}

// lastIgnored is what the sandbox of a far workspace had when it was asked last; "" = it was not asked.
func (t *taking) lastIgnored(ctx context.Context) (commit string, n int, err error) {
	if commit, err = t.s.CommitOf(ctx, t.p.GitDir, RemoteIgnoredRef(t.w.ID)); err != nil || commit == "" {
		return "", 0, err
	}
	files, err := t.s.CommitFiles(ctx, t.p.ID, commit, "")
	return commit, len(files), err
}

// ignoredHome brings the ignored files of a sandbox that has ended into the worktree on this server. Those that lie there as they were sent
// give way to what became of them; what else has a name of theirs is left as it is, and told of.
func (s *Service) ignoredHome(ctx context.Context, p Project, w Workspace) error {
	commit, err := s.CommitOf(ctx, p.GitDir, RemoteIgnoredRef(w.ID))
	if err != nil || commit == "" {
		return err
	}
	files, err := s.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	left, err := s.putIgnored(ctx, p, w, files, s.readSent(w.ID))
	if err != nil {
		return err
	}
	if len(left) > 0 {
		s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "ignored.left", Data: map[string]any{"paths": EncodePaths(left)},
			Text: fmt.Sprintf("%s of the sandbox did not take the place of others on this server: %s. The timeline has both.", Plural(len(left), "ignored file", "ignored files"), SomeNames(EncodePaths(left)))})
	}
	return nil
}

// putIgnored writes ignored files into the worktree on this server where nothing lies, or what was sent from there; left are the others.
func (s *Service) putIgnored(ctx context.Context, p Project, w Workspace, files []ChangedFile, sent map[string]string) (left []string, err error) {
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return nil, DiskFault(err, "Opening the workspace's folder")
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
	commit, err := s.CommitOf(ctx, p.GitDir, RemoteIgnoredRef(workspaceID))
	if err == nil && commit != "" {
		err = s.dropRefs(ctx, p, []RefEdit{refDrop(RemoteIgnoredRef(workspaceID))})
	}
	return err
}

// ReadRemoteIgnored asks a sandbox that is about to be left for good for its ignored files, and refuses to leave it where they cannot be had.
func (s *Service) ReadRemoteIgnored(ctx context.Context, p Project, w Workspace) (*RemoteIgnored, error) {
	there := s.askIgnored(ctx, p, w, SnapKept)
	if there == nil && s.Remote(w.ID) && wantsIgnored(p, SnapKept) {
		there = &RemoteIgnored{failed: "The sandbox does not answer."}
	}
	if there != nil && there.failed != "" {
		return nil, fault.New(fault.Unavailable, "ignored_not_home", "The ignored files that the project keeps could not be brought from the sandbox: %s Try again, or have the project keep none.", there.failed)
	}
	return there, nil
}

// Words say what became of the files.
func (t *RemoteIgnored) Words() string {
	if t == nil || len(t.files)+len(t.missing) == 0 {
		return ""
	}
	out := Plural(len(t.files), "ignored file comes", "ignored files come") + " along."
	if len(t.missing) > 0 {
		out += " Left behind: " + MissingWords(t.missing) + "."
	}
	return out
}

// MissingWords name files and why they are left out, those with the same reason together.
func MissingWords(list []Missing) string {
	var whys []string
	by := make(map[string][]string)
	for _, m := range list {
		why := strings.TrimSuffix(m.Reason, ".")
		if by[why] == nil {
			whys = append(whys, why)
		}
		name := m.Path
		if m.Size > 0 {
			name += " (" + SizeWords(m.Size) + ")"
		}
		by[why] = append(by[why], name)
	}
	var out []string
	for _, why := range whys {
		out = append(out, SomeNames(by[why])+": "+lowerFirst(why))
	}
	return strings.Join(out, "; ")
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// SizeWords is a size as people read it.
func SizeWords(n int64) string {
	switch {
	case n < 1<<10:
		return Plural(int(n), "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// shownNames is how many files are named to people.
const shownNames = 4

// SomeNames names a few files, in wire form, for people.
func SomeNames(names []string) string {
	shown := names[:min(len(names), shownNames)]
	out := strings.Join(shown, ", ")
	if n := len(names) - len(shown); n > 0 {
		out += " and " + Plural(n, "other", "others")
	}
	return out
}
