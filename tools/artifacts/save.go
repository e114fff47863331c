package artifacts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools/artifacts/blobs"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// SaveRequest asks to save a file of the sandbox.
type SaveRequest struct {
	Path     string // absolute as agents see it, or relative to the worktree
	Name     string // "" = the file's own name; below the artifacts folder the path in it
	MIME     string // "" = by extension and content
	Metadata map[string]string
}

// Save saves a file of the worktree or of an artifacts folder.
func (s *Service) Save(ctx context.Context, m Maker, req SaveRequest) (Artifact, error) {
	folders, root, done, err := s.cfg.Folders.Of(ctx, m.WorkspaceID)
	if err != nil {
		return Artifact{}, err
	}
	defer done()
	from := path.Clean(req.Path)
	if req.Path == "" || strings.ContainsRune(req.Path, 0) || len(req.Path) > 4096 {
		return Artifact{}, fault.New(fault.Invalid, "artifact_path_invalid", "The path must have 1 to 4096 bytes and no NUL character.").With("field", "path")
	}
	if path.IsAbs(from) {
		for _, f := range folders {
			if f.UserID != "" && f.UserID != m.UserID {
				continue
			}
			if in, ok := strings.CutPrefix(from, f.Path+"/"); ok {
				return s.saveFile(ctx, m, req, f, in)
			}
		}
		in, ok := strings.CutPrefix(from, root+"/")
		if root == "" || !ok {
			return Artifact{}, outside(req.Path)
		}
		from = in
	}
	if from == ".." || strings.HasPrefix(from, "../") {
		return Artifact{}, outside(req.Path)
	}
	return s.saveWorktreeFile(ctx, m, req, from)
}

func outside(name string) error {
	return fault.New(fault.Invalid, "artifact_path_outside",
		"%.200q is neither in the worktree nor in the artifacts folder. Copy the file into the folder that PARAWORK_ARTIFACTS names, then save it there.", name).With("field", "path")
}

// errChanged means that a file changed while it was being copied.
var errChanged = errors.New("the file changed while it was being copied")

// attempts is how often a file that changes while it is copied is copied.
const attempts = 3

// saveFile saves a file of an artifacts folder.
func (s *Service) saveFile(ctx context.Context, m Maker, req SaveRequest, f Folder, in string) (Artifact, error) {
	if req.Name == "" {
		req.Name = guest.EncodePath(in)
	}
	name := path.Join(f.Name, in)
	for range attempts {
		info, err := f.Files.Stat(name)
		if err != nil {
			return Artifact{}, sourceError(err, in)
		}
		if !info.Regular() {
			return Artifact{}, sourceError(homedir.ErrNotPlain, in)
		}
		at := info.ModTime.UnixMilli()
		a, err := s.store(ctx, m, req, content{size: info.Size, source: f.key(in), at: at, copy: func(ctx context.Context, part *os.File, have int64) error {
			return pull(ctx, f.Files, name, info, part, have)
		}})
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return Artifact{}, sourceError(err, in)
		}
		return a, s.cfg.Store.NoteArtifactSource(ctx, m.TeamID, m.WorkspaceID, Source{Path: f.key(in), Size: info.Size, Mtime: at})
	}
	return Artifact{}, changing(in)
}

func changing(name string) error {
	return fault.New(fault.Conflict, "artifact_changing", "%.200q is still being written: it changed each time it was copied. Save it once it is complete.", name)
}

// sourceError says what is wrong with a file that was to be saved.
func sourceError(err error, name string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), fault.CodeOf(err) == "file_not_found":
		return fault.Wrap(err, fault.NotFound, "artifact_source_missing", "There is no file %.200q.", name)
	case errors.Is(err, homedir.ErrNotPlain):
		return fault.Wrap(err, fault.Invalid, "artifact_not_a_file", "%.200q is not a regular file. Save one file, not a folder or a link.", name)
	}
	return err
}

// pull copies a file piece by piece to part, of which the first bytes may be there already.
func pull(ctx context.Context, files Files, name string, info homedir.Info, part *os.File, have int64) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, fileID, err := f.Stat(); err != nil {
		return err
	} else if fileID != info.ID {
		return errChanged
	}
	buf := make([]byte, 1<<20)
	if have, err = sameStart(f, part, have, buf); err != nil {
		return err
	}
	for have < info.Size {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), info.Size-have)], have)
		if n > 0 {
			if _, err := part.WriteAt(buf[:n], have); err != nil {
				return diskFull(err)
			}
			have += int64(n)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, io.EOF) && have < info.Size:
			return errChanged
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
	after, err := files.Stat(name)
	if err != nil {
		return err
	}
	if after.ID != info.ID || after.Size != info.Size || after.ModTime.UnixMilli() != info.ModTime.UnixMilli() {
		return errChanged
	}
	return nil
}

// sameStart returns how much of part can be kept: all of it when the last bytes there are those of the file, otherwise nothing.
func sameStart(f homedir.File, part *os.File, have int64, buf []byte) (int64, error) {
	if have == 0 {
		return 0, nil
	}
	n := min(have, 64<<10)
	mine, theirs := buf[:n], buf[n:2*n]
	if _, err := part.ReadAt(mine, have-n); err != nil {
		return 0, err
	}
	if _, err := f.ReadAt(theirs, have-n); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if string(mine) == string(theirs) {
		return have, nil
	}
	return 0, part.Truncate(0)
}

// saveWorktreeFile saves a file of the worktree. Its bytes come with a hash, which the reader checks.
func (s *Service) saveWorktreeFile(ctx context.Context, m Maker, req SaveRequest, from string) (Artifact, error) {
	if req.Name == "" {
		req.Name = path.Base(from)
	}
	for range attempts {
		body, info, err := s.cfg.Worktrees.Read(ctx, m.WorkspaceID, from)
		if err != nil {
			return Artifact{}, sourceError(err, from)
		}
		a, err := s.store(ctx, m, req, content{size: info.Size, path: from, copy: func(_ context.Context, part *os.File, _ int64) error {
			n, err := copyTo(part, io.LimitReader(body, info.Size+1))
			if err == nil && n != info.Size {
				err = errChanged
			}
			return err
		}})
		body.Close()
		if !errors.Is(err, errChanged) && fault.CodeOf(err) != "file_changing" {
			return a, err
		}
	}
	return Artifact{}, changing(from)
}

// Upload saves what a person or a script sends. size is how much there will be, -1 when unknown; sum is the sha256 in hex that it must
// have, "" = any.
func (s *Service) Upload(ctx context.Context, m Maker, req SaveRequest, body io.Reader, size int64, sum string) (Artifact, error) {
	if size < 0 {
		size = 0 // counted when it is there
	}
	return s.store(ctx, m, req, content{size: size, sum: strings.ToLower(sum), unknown: size == 0, copy: func(_ context.Context, part *os.File, _ int64) error {
		n, err := copyTo(part, io.LimitReader(body, s.cfg.MaxFile+1))
		if err == nil && n > s.cfg.MaxFile {
			err = s.tooLarge(req.Name)
		}
		if err == nil && size > 0 && n != size {
			err = fault.New(fault.Invalid, "artifact_cut", "The content ended after %d of %d bytes. Send it again.", n, size)
		}
		return err
	}})
}

// copyTo copies to a part, and distinguishes a full disk from a source that fails.
func copyTo(part *os.File, r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{part}, r)
	return n, diskFull(err)
}

func diskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full: the artifact was not saved. Free some space in the data folder and try again.")
	}
	return err
}

func (s *Service) tooLarge(name string) error {
	return fault.New(fault.TooLarge, "artifact_too_large", "%.200q is larger than %s, the most an artifact may have.", name, sizeText(s.cfg.MaxFile))
}

// content is what becomes an artifact.
type content struct {
	size    int64  // what there will be
	unknown bool   // the size is known at the end only
	sum     string // sha256 in hex that it must have, "" = any
	path    string // in the worktree, "" = none
	source  string // identifies a file that can be resumed, "" = it cannot
	at      int64  // its modification time
	copy    func(ctx context.Context, part *os.File, have int64) error
}

// store makes an artifact of a content: the row comes first, then the bytes, then the row says that they are there. An unchanged
// content of the same name is not stored twice.
func (s *Service) store(ctx context.Context, m Maker, req SaveRequest, c content) (Artifact, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, m.WorkspaceID)
	if err != nil {
		return Artifact{}, err
	}
	if w.TeamID != m.TeamID {
		return Artifact{}, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	hidden, err := s.cfg.Secrets.SecretFiles(ctx, w.ID)
	if err != nil {
		return Artifact{}, err
	}
	req.Name = secretfiles.Masked(hidden, req.Name)
	given, err := checkType(req.MIME)
	if err := cmp.Or(err, CheckName(req.Name), checkMetadata(req.Metadata)); err != nil {
		return Artifact{}, err
	}
	if c.size > s.cfg.MaxFile {
		return Artifact{}, s.tooLarge(req.Name)
	}
	ctx = tenant.In(ctx, m.TeamID)
	a, err := s.begin(ctx, m, w, req, c, given, hidden)
	if err != nil {
		return Artifact{}, err
	}
	defer s.release(a.ID)
	return s.fill(ctx, a, c, given, hidden)
}

// begin stores the pending row, or finds the one of a copy that was cut.
func (s *Service) begin(ctx context.Context, m Maker, w workspaces.Workspace, req SaveRequest, c content, given string, hidden workspaces.SecretFiles) (Artifact, error) {
	if c.source != "" {
		a, err := s.cfg.Store.PendingArtifact(ctx, w.ID, c.source, c.size, c.at)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return Artifact{}, err
		}
		if err == nil && a.Name == req.Name && s.hold(a.ID) {
			return a, nil
		}
	}
	a := Artifact{ID: id.New("art"), TeamID: w.TeamID, ProjectID: w.ProjectID, WorkspaceID: w.ID, SessionID: m.SessionID, CreatedBy: cmp.Or(m.UserID, w.CreatedBy), Name: req.Name, MIME: given, Size: c.size,
		Metadata: map[string]string{}, State: Pending, Source: c.source, SourceAt: c.at, CreatedAt: s.now()}
	for k, v := range req.Metadata {
		a.Metadata[k] = secretfiles.Masked(hidden, v)
	}
	s.hold(a.ID)
	if err := s.cfg.Store.BeginArtifact(ctx, a, s.within(a)); err != nil {
		s.release(a.ID)
		return Artifact{}, err
	}
	return a, nil
}

// within checks what the team and the workspace have, together with a new artifact.
func (s *Service) within(a Artifact) func(Use) error {
	return func(u Use) error {
		switch {
		case s.cfg.TeamBytes > 0 && u.Bytes+a.Size > s.cfg.TeamBytes:
			return fault.New(fault.Quota, "artifact_quota", "The team's artifacts would take more than %s. Delete artifacts that are no longer needed, or ask the server's operator for more.",
				sizeText(s.cfg.TeamBytes)).With("used", u.Bytes).With("limit", s.cfg.TeamBytes)
		case u.InWorkspace >= maxWorkspace:
			return fault.New(fault.Quota, "artifact_count", "The workspace has %d artifacts, the most there may be. Delete some that are no longer needed.", u.InWorkspace)
		}
		return nil
	}
}

func (s *Service) hold(artifactID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[artifactID] {
		return false
	}
	s.active[artifactID] = true
	return true
}

func (s *Service) release(artifactID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, artifactID)
}

// fill copies the content of a pending artifact and makes it ready. What was copied until a cut is kept when the copy can be resumed.
func (s *Service) fill(ctx context.Context, a Artifact, c content, given string, hidden workspaces.SecretFiles) (_ Artifact, err error) {
	clean := context.WithoutCancel(ctx)
	defer func() {
		if err != nil && !(c.source != "" && resumable(err)) {
			if err := s.discard(clean, a); err != nil {
				s.cfg.Log.WarnContext(clean, "an artifact that was not saved could not be removed; it is removed later", "artifact_id", a.ID, "error", err)
			}
		}
	}()
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return Artifact{}, diskFull(err)
	}
	part, err := os.OpenFile(s.part(a.ID), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return Artifact{}, diskFull(err)
	}
	defer part.Close()
	st, err := part.Stat()
	if err != nil {
		return Artifact{}, err
	}
	if err := c.copy(ctx, part, min(st.Size(), c.size)); err != nil {
		return Artifact{}, err
	}
	failpoint.Reach(failpoint.ArtifactCopied)
	if a, err = s.examine(a, part, c, given, hidden); err != nil {
		return Artifact{}, err
	}
	if c.unknown {
		u, err := s.cfg.Store.ArtifactUse(ctx, a.TeamID)
		if err == nil {
			err = s.within(a)(u)
		}
		if err != nil {
			return Artifact{}, err
		}
	}
	latest, _, err := s.cfg.Store.Artifacts(ctx, Filter{WorkspaceID: a.WorkspaceID, Name: a.Name}, onePage)
	if err != nil {
		return Artifact{}, err
	}
	if len(latest) > 0 && latest[0].SHA256 == a.SHA256 && (given == "" || given == latest[0].MIME) && len(a.Metadata) == 0 {
		return latest[0], s.discard(clean, a)
	}
	if err := s.cfg.Blobs.Put(ctx, blobs.Key(a.TeamID, a.ID), s.part(a.ID)); err != nil {
		return Artifact{}, diskFull(err)
	}
	failpoint.Reach(failpoint.ArtifactPut)
	done, err := s.cfg.Store.FinishArtifact(clean, a)
	if err != nil {
		return Artifact{}, err
	}
	s.changed(clean, done)
	return done, nil
}

// resumable reports whether a copy that failed can go on later from where it stopped.
func resumable(err error) bool {
	return !errors.Is(err, errChanged) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || fault.Is(err, fault.Unavailable))
}

// examine hashes a content that is complete, masks secrets' values in it, and fills in what is known of it now.
func (s *Service) examine(a Artifact, part *os.File, c content, given string, hidden workspaces.SecretFiles) (Artifact, error) {
	head := make([]byte, 512)
	n, err := part.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return a, err
	}
	a.MIME = typeOf(given, a.Name, head[:n])
	sum, size, err := hashFile(part, nil)
	if err != nil {
		return a, err
	}
	switch {
	case c.sum != "" && c.sum != sum:
		return a, fault.New(fault.Invalid, "artifact_hash_mismatch", "The content's sha256 is %s and not the one that was announced. Send it again.", sum)
	case secretfiles.HasSum(hidden, c.path, sum):
		return a, secretfiles.ErrSecretFile
	}
	if hidden.Values != nil {
		found := secretfiles.Reader(hidden, io.NewSectionReader(part, 0, size))
		if _, err := io.Copy(io.Discard, found); err != nil {
			return a, err
		}
		if found.Found() {
			if sum, size, err = mask(part, size, hidden); err != nil {
				return a, err
			}
		}
	}
	a.Size, a.SHA256 = size, sum
	return a, nil
}

// mask replaces secrets' values in a content, at equal length.
func mask(part *os.File, size int64, hidden workspaces.SecretFiles) (string, int64, error) {
	masked := secretfiles.Reader(hidden, io.NewSectionReader(part, 0, size)) // reads ahead of what is written
	return hashFile(part, &copyBack{masked, part, 0})
}

// copyBack is a reader that writes what it returns to a file, from its start on.
type copyBack struct {
	r    io.Reader
	file *os.File
	off  int64
}

func (c *copyBack) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		if _, err := c.file.WriteAt(p[:n], c.off); err != nil {
			return n, diskFull(err)
		}
		c.off += int64(n)
	}
	return n, err
}

// hashFile returns the sha256 in hex and the size of what r returns; nil = the file from its start.
func hashFile(f *os.File, r io.Reader) (string, int64, error) {
	if r == nil {
		r = io.NewSectionReader(f, 0, 1<<62)
	}
	var h hash.Hash = sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, r, make([]byte, 256<<10))
	return hex.EncodeToString(h.Sum(nil)), n, err
}

func (s *Service) removePart(artifactID string) error {
	if err := os.Remove(s.part(artifactID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sizeText formats a size for people.
func sizeText(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.of {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.of)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
