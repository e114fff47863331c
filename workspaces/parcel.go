package workspaces

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// parcelDir is where the parcel for a sandbox lies until it has arrived.
func (s *Service) parcelDir(sandboxID string) string {
	return filepath.Join(s.cfg.DataDir, "parcels", filepath.Base(sandboxID))
}

// parcelNote says what a parcel holds. It is written when the parcel is complete.
type parcelNote struct {
	ID        string            `json:"id"`
	Workspace string            `json:"workspace"`
	Size      int64             `json:"size"`
	Hash      string            `json:"hash"` // sha256, in hex
	Home      homeState         `json:"home"` // where the worktree stood
	Told      map[string]string `json:"told"` // refs of the repository's in it
	Sent      map[string]string `json:"sent"` // ignored files that are kept, in it: git's names of them
}

func (s *Service) readNote(sandboxID string) (parcelNote, bool) {
	var n parcelNote
	b, err := os.ReadFile(filepath.Join(s.parcelDir(sandboxID), "note"))
	if err != nil || json.Unmarshal(b, &n) != nil {
		return n, false
	}
	fi, err := os.Lstat(filepath.Join(s.parcelDir(sandboxID), "parcel"))
	return n, err == nil && fi.Size() == n.Size
}

// spooled finds the parcel of a sandbox, or makes it. say tells how far it is.
func (s *Service) spooled(ctx context.Context, p Project, w Workspace, sandboxID string, say func(done, all int64)) (parcelNote, error) {
	if n, ok := s.readNote(sandboxID); ok && n.Workspace == w.ID {
		return n, nil
	}
	dir := s.parcelDir(sandboxID)
	if err := s.RemoveFolder(dir); err != nil {
		return parcelNote{}, DiskFault(err, "Preparing the repository to be sent")
	}
	if err := MakeFolders(dir); err != nil {
		return parcelNote{}, DiskFault(err, "Preparing the repository to be sent")
	}
	n, err := s.makeParcel(ctx, p, w, sandboxID, dir, say)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(n); err == nil {
			err = writeOnce(filepath.Join(dir, "note"), string(b))
		}
	}
	if err != nil {
		_ = s.RemoveFolder(dir)
		if errors.Is(err, syscall.ENOSPC) || nearlyFull(s.cfg.DataDir) {
			return n, DiskFault(errors.Join(syscall.ENOSPC, err), "Preparing the repository to be sent")
		}
		if _, told := errors.AsType[*fault.Error](err); !told && ctx.Err() == nil {
			err = fault.Wrap(err, fault.Unavailable, "parcel_failed", "The repository could not be prepared to be sent to the sandbox: %s", Reason(err))
		}
		return n, err
	}
	return n, nil
}

// makeParcel writes the parcel of a worktree into dir.
func (s *Service) makeParcel(ctx context.Context, p Project, w Workspace, sandboxID, dir string, say func(done, all int64)) (parcelNote, error) {
	n := parcelNote{Workspace: w.ID}
	admin := linkedDir(p, w)
	if admin == "" {
		return n, fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Put the workspace away and restore it.")
	}
	gitDir := filepath.Join(dir, "git")
	staged, err := s.parcelGit(ctx, p, w, admin, gitDir, &n, say)
	if err != nil {
		return n, err
	}
	st, err := s.worktreeState(ctx, p, w, n.Home.Head)
	if err != nil {
		return n, err
	}
	if n.Sent, err = s.sendIgnored(ctx, p, w, n.Home.Head, &st); err != nil {
		return n, err
	}
	n.Size, n.Hash, err = s.writeParcel(ctx, w, filepath.Join(dir, "parcel"), gitDir, staged, st)
	if err != nil {
		return n, err
	}
	n.ID = sandboxID + "-" + n.Hash[:16]
	return n, s.RemoveFolder(gitDir)
}

// parcelGit makes the git folder of a parcel, and returns what is staged.
func (s *Service) parcelGit(ctx context.Context, p Project, w Workspace, admin, dir string, n *parcelNote, say func(done, all int64)) (staged string, err error) {
	head, err := s.CommitOf(ctx, admin, "HEAD")
	if err != nil {
		return "", err
	}
	if head == "" {
		return "", fault.New(fault.Conflict, "worktree_unreadable", "The workspace's worktree is at no commit. Put the workspace away and restore it.")
	}
	if n.Told, err = s.farTold(ctx, p, w); err != nil {
		return "", err
	}
	refs, err := s.boxRefs(ctx, p, w, admin, n.Told)
	if err != nil {
		return "", err
	}
	n.Home = homeState{Head: head, Tip: refs.local[HeadsPrefix+w.Branch], Bytes: s.readHome(w.ID).Bytes}
	if at, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"symbolic-ref", "--quiet", "HEAD"}}); err == nil {
		n.Home.Branch = strings.TrimPrefix(at, HeadsPrefix)
	}
	config, err := s.boxConfig(ctx, p, admin, "")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := s.fillPrivateGit(ctx, p, dir, admin, config, refs, false); err != nil {
		return "", err
	}
	// An index knows the files of this machine; FETCH_HEAD and the log of HEAD name what only this machine has.
	for _, name := range [...]string{"index", "FETCH_HEAD", "logs/HEAD", "shallow"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	staged, blobs, err := s.parcelIndex(ctx, p, w, admin, n)
	if err != nil {
		return "", err
	}
	tips, err := s.parcelTips(ctx, p, w, refs, dir, head)
	if err != nil {
		return "", err
	}
	lent, err := s.borrow(ctx, p, w, tips.all)
	if err != nil {
		return "", err
	}
	if lent != nil {
		return staged, s.packBeyond(ctx, p, dir, append(tips.all, blobs...), lent, say)
	}
	h, err := s.cutHistory(ctx, p, tips.main, tips.others)
	if err != nil {
		return "", err
	}
	h.tips = append(unique(append(h.tips, tips.all...)), blobs...) // tags themselves, too
	if err := os.WriteFile(filepath.Join(dir, "shallow"), []byte(strings.Join(h.shallow, "\n")+"\n"), 0o644); err != nil {
		return "", err
	}
	return staged, s.packHistory(ctx, p, filepath.Join(dir, "objects", "pack"), h, nil, say)
}

// parcelIndex returns what is staged, and keeps it here as a commit, where it can be one: a sandbox that is lost does not take it along.
func (s *Service) parcelIndex(ctx context.Context, p Project, w Workspace, admin string, n *parcelNote) (staged string, blobs []string, err error) {
	staged, blobs, conflicts, err := s.stagedIn(ctx, admin, n.Home.Head)
	if err != nil || staged == "" {
		return "", nil, err
	}
	types, err := s.typed(ctx, p, blobs)
	if err != nil {
		return "", nil, err
	}
	if len(types) < len(unique(blobs)) {
		s.cfg.Log.InfoContext(ctx, "what is staged names objects that are gone, it is not sent", "workspace_id", w.ID)
		return "", nil, nil
	}
	if conflicts {
		return staged, unique(blobs), nil
	}
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: admin, Args: []string{"write-tree"}})
	if err != nil {
		return staged, unique(blobs), nil // it is sent all the same
	}
	commit, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader("parawork: what was staged\n"), Args: []string{"commit-tree", "-p", n.Home.Head, tree}})
	if err != nil || !IsCommitID(commit) {
		return "", nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Keeping what is staged")
	}
	if err := s.UpdateRefs(ctx, p.GitDir, "staged in "+w.Key(), RefSet(indexRef(w.ID), commit)); err != nil {
		return "", nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Keeping what is staged")
	}
	n.Home.Index = commit
	return staged, unique(blobs), nil
}

// parcelTips are what a parcel's repository names.
type parcelTips struct {
	main   []string // commits whose history must be there as far as they differ
	others []string // commits beside
	all    []string // all of them, and tags of other things
}

// parcelTips says what the work needs of the repository.
func (s *Service) parcelTips(ctx context.Context, p Project, w Workspace, refs boxRefs, dir, head string) (parcelTips, error) {
	base, err := s.newestBase(ctx, p, w)
	if err != nil {
		return parcelTips{}, err
	}
	main := []string{head, base, refs.local[HeadsPrefix+w.Branch]}
	all := []string{}
	for _, id := range refs.told {
		all = append(all, id)
	}
	told, err := s.peeled(ctx, p, unique(all))
	if err != nil {
		return parcelTips{}, err
	}
	own := slices.Clone(refs.stash)
	for _, id := range refs.local {
		own = append(own, id)
	}
	others, err := s.peeled(ctx, p, unique(own))
	if err != nil {
		return parcelTips{}, err
	}
	under, err := s.operationTips(ctx, p, dir)
	if err != nil {
		return parcelTips{}, err
	}
	main, others = append(main, told...), append(others, under...)
	return parcelTips{main, others, unique(slices.Concat(main, others, all, own))}, nil
}

// writeParcel writes the archive.
func (s *Service) writeParcel(ctx context.Context, w Workspace, file, gitDir, staged string, st worktreeState) (size int64, hash string, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	a := archive{ctx: ctx, tw: tar.NewWriter(buf), owner: s.boxOwner(w.ID)}
	if err = s.fillParcel(&a, w, gitDir, staged, st); err == nil {
		err = errors.Join(a.tw.Close(), buf.Flush())
	}
	if err != nil {
		return 0, "", err
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	return fi.Size(), hex.EncodeToString(sum.Sum(nil)), f.Close()
}

func (s *Service) fillParcel(a *archive, w Workspace, gitDir, staged string, st worktreeState) error {
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return err
	}
	defer root.Close()
	tree, err := os.OpenRoot(w.Path)
	if err != nil {
		return err
	}
	defer tree.Close()
	files := slices.Concat(st.changed, st.others, st.ignored)
	slices.Sort(files)
	files = slices.Compact(files)
	plan, err := json.Marshal(guest.ParcelPlan{Kind: guest.ParcelWorktree, Files: int64(len(files) + len(st.nested)), Bytes: folderBytes(root)})
	if err != nil {
		return err
	}
	if err := a.text(guest.ParcelPlanEntry, string(plan)); err != nil {
		return err
	}
	if err := a.folder(root, ".", guest.ParcelGit); err != nil {
		return err
	}
	gone := ""
	if len(st.gone) > 0 {
		gone = strings.Join(st.gone, "\x00") + "\x00"
	}
	for _, l := range [...]struct{ name, text string }{{guest.ParcelGone, gone}, {guest.ParcelStaged, staged}} {
		if l.text == "" {
			continue
		}
		if err := a.text(l.name, l.text); err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := a.file(tree, name, guest.ParcelTree); err != nil {
			return err
		}
	}
	for _, name := range st.nested {
		if !ignored.PlainParents(tree, name+"/x") {
			continue
		}
		if err := a.folder(tree, name, guest.ParcelTree); err != nil {
			return err
		}
	}
	return nil
}

// folderBytes adds up the files of a folder of ours.
func folderBytes(root *os.Root) int64 {
	var sum int64
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				sum += fi.Size()
			}
		}
		return nil
	})
	return sum
}

// archive writes a parcel.
type archive struct {
	ctx   context.Context
	tw    *tar.Writer
	owner int // see foreign
}

func (a *archive) text(name, text string) error {
	if err := a.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.WriteString(a.tw, text)
	return err
}

// folder writes all that is below a folder: files, folders and links.
func (a *archive) folder(root *os.Root, name, prefix string) error {
	return fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", p, err)
		}
		if p == "." {
			return nil
		}
		if d.IsDir() {
			return a.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + p + "/", Mode: 0o755, Format: tar.FormatPAX})
		}
		return a.file(root, p, prefix)
	})
}

// file writes one file or link. What is not there any more is left out; what cannot be read is an error, for it would be missing there.
func (a *archive) file(root *os.Root, name, prefix string) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if !ignored.PlainParents(root, name) {
		return nil
	}
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	h := &tar.Header{Name: prefix + name, Mode: int64(fi.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return fmt.Errorf("reading the link %q: %w", name, err)
		}
		return a.tw.WriteHeader(h)
	case !fi.Mode().IsRegular():
		return nil // a FIFO, a socket, a device, or a folder where a file was
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return fmt.Errorf("reading %q: it changed meanwhile", path.Base(name))
	}
	if foreign(fi, a.owner) {
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, fi.Size()
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.CopyN(a.tw, f, h.Size); err != nil {
		return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
	}
	return nil
}
