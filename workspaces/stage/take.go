package stage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// What a take does if a file differs in both workspaces.
const (
	TakeRefuse    = "refuse"    // take nothing
	TakeKeepBoth  = "keep_both" // write the other's file under another name
	TakeOverwrite = "overwrite"
)

// TakeRequest is a request for files of another workspace. The caller checks who may see that.
type TakeRequest struct {
	From       string   // the other workspace
	Revision   string   // "" = now
	Paths      []string // raw; a folder means everything below it
	OnConflict string   // "" = refuse
	DryRun     bool
}

// TakenFile is one file of a take. State is same, new, changed, deleted or conflict.
type TakenFile struct {
	Path, State, KeptAs string
	Size                int64
}

// Taken is what a take did, or would do.
type Taken struct {
	SnapshotID string
	Commit     string // the state of the other workspace
	Files      []TakenFile
}

// takeStep is the take of one file.
type takeStep struct {
	file TakenFile
	was  PresentFile
	to   git.FileEntry
}

// Take copies files of one workspace into another. It first takes a snapshot of all files, and overwrites nothing that is not in it.
func (s *Service) Take(ctx context.Context, actor accounts.Actor, workspaceID string, r TakeRequest) (Taken, error) {
	if err := r.check(workspaceID); err != nil {
		return Taken{}, err
	}
	src, err := s.store.Workspace(ctx, r.From)
	if err != nil {
		return Taken{}, err
	}
	if src.DeletedAt != 0 {
		return Taken{}, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	srcProject, err := s.store.Project(ctx, src.ProjectID)
	if err != nil {
		return Taken{}, err
	}
	if r.Revision == snapshot.RevNow { // the newest snapshot may be slightly out of date
		if _, err := s.snapshots.Take(ctx, src.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil {
			return Taken{}, err
		}
	}
	tree, err := s.snapshots.Resolve(ctx, src, r.Revision, actor.User.ID)
	if err != nil {
		return Taken{}, err
	}
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return Taken{}, err
	}
	defer release()
	files, err := s.FileWriter()
	if err != nil {
		return Taken{}, err
	}
	t := &taker{s: s, r: r, w: w, p: p, src: src, srcProject: srcProject, commit: tree.Commit, files: files}
	if err := t.plan(ctx); err != nil {
		return Taken{}, err
	}
	out := Taken{Commit: tree.Commit}
	var conflicts []string
	for _, st := range t.steps {
		out.Files = append(out.Files, st.file)
		if st.file.State == "conflict" {
			conflicts = append(conflicts, guest.EncodePath(st.file.Path))
		}
	}
	if r.DryRun {
		return out, nil
	}
	if len(conflicts) > 0 && r.OnConflict == TakeRefuse {
		return out, fault.New(fault.Conflict, "take_conflicts", "%s also changed here. Keep both, overwrite, or leave out.",
			git.Plural(len(conflicts), "file was", "files were")).With("paths", conflicts)
	}
	return t.run(ctx, actor, out)
}

func (r *TakeRequest) check(workspaceID string) error {
	r.Revision = cmp.Or(r.Revision, snapshot.RevNow)
	r.OnConflict = cmp.Or(r.OnConflict, TakeRefuse)
	if r.OnConflict != TakeRefuse && r.OnConflict != TakeKeepBoth && r.OnConflict != TakeOverwrite {
		return fault.New(fault.Invalid, "invalid_parameter", "on_conflict is refuse, keep_both or overwrite.").With("field", "on_conflict")
	}
	if r.From == workspaceID {
		return fault.New(fault.Invalid, "same_workspace", "The files are already in this workspace. To bring back an older version of them, restore a snapshot.")
	}
	if len(r.Paths) == 0 {
		return fault.New(fault.Invalid, "nothing_chosen", "No file was chosen.").With("field", "paths")
	}
	for _, p := range r.Paths {
		if err := sandboxgit.CheckPath(p); err != nil {
			return err
		}
	}
	return nil
}

// taker is one take.
type taker struct {
	s          *Service
	r          TakeRequest
	w, src     workspaces.Workspace
	p          workspaces.Project
	srcProject workspaces.Project
	commit     string
	files      Files
	steps      []takeStep
}

// plan finds the files and what would happen to each.
func (t *taker) plan(ctx context.Context) error {
	theirs, err := t.list(ctx, t.srcProject, t.commit)
	if err != nil {
		return err
	}
	before, err := t.common(ctx)
	if err != nil {
		return err
	}
	names := make(map[string]bool)
	for name := range theirs {
		names[name] = true
	}
	for name := range before { // what they removed
		names[name] = true
	}
	for _, asked := range t.r.Paths {
		asked = strings.TrimSuffix(asked, "/")
		found := false
		for name := range names {
			found = found || name == asked || strings.HasPrefix(name, asked+"/")
		}
		if !found {
			return fault.New(fault.NotFound, "file_not_found", "%s has no file %q.", t.src.Key(), asked).With("path", guest.EncodePath(asked))
		}
	}
	if len(names) > maxParts {
		return fault.New(fault.TooLarge, "too_many_parts", "More than %d files: merge the branch instead.", maxParts)
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	secrets, err := t.s.secretFiles.SecretFiles(ctx, t.src.ID) // a copy of a secret's file counts as one, too
	if err != nil {
		return err
	}
	for _, name := range sorted {
		if secretfiles.Has(secrets, name, theirs[name].OID) {
			return fault.New(fault.Forbidden, "secret_file", "%q is a secret's file: only sessions can read it.", name)
		}
		if secrets.Values != nil && theirs[name].Is() && !theirs[name].Module() {
			err := t.s.repo.CommitBlobs(ctx, t.srcProject.ID, []hostgit.TreeFile{{Path: name, OID: theirs[name].OID, Size: max(theirs[name].Size, 0)}}, func(_ hostgit.TreeFile, r io.Reader) error {
				found, err := secrets.Values.Scan(r, secrets.Hides)
				if found {
					err = fault.New(fault.Forbidden, "secret_value", "%q contains the value of a secret of %s, so it is not taken.", name, t.mark()).With("path", guest.EncodePath(name))
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if err := t.step(ctx, name, theirs[name], before[name]); err != nil {
			return err
		}
	}
	return nil
}

// step determines what happens to one file.
func (t *taker) step(ctx context.Context, name string, to, before git.FileEntry) error {
	was, err := t.s.Present(ctx, t.files, t.w, name, t.commit, false)
	if err != nil {
		return err
	}
	st := takeStep{file: TakenFile{Path: name, Size: max(to.Size, 0)}, was: was, to: to}
	same := was.OID == to.OID && (was.Mode == to.Mode || !to.Is())
	switch {
	case to.Module() || was.What == "dir" || was.What == "other":
		return fault.New(fault.Conflict, "part_unsupported", "%q is a folder, a submodule or a special file: change it in a terminal.", name).With("path", guest.EncodePath(name))
	case same && !to.Is(): // neither has it
		return nil
	case same:
		st.file.State = "same"
	case !was.Is() && !before.Is():
		st.file.State = "new"
	case was.Is() && before.Is() && was.OID == before.OID && !to.Is():
		st.file.State = "deleted"
	case before.Is() && was.OID == before.OID:
		st.file.State = "changed"
	case before.Is() && before.OID == to.OID: // only this workspace changed it: there is nothing to take
		st.file.State = "same"
	default:
		st.file.State = "conflict"
		if t.r.OnConflict == TakeKeepBoth && to.Is() && was.Is() {
			if st.file.KeptAs, err = t.spare(ctx, name); err != nil {
				return err
			}
		}
	}
	t.steps = append(t.steps, st)
	return nil
}

// mark is the other workspace's key, unless nobody else may know of it.
func (t *taker) mark() string {
	if t.src.Private {
		return "theirs"
	}
	return t.src.Key()
}

// spare is a free name derived from one that is taken: a.txt becomes a.PW-17.txt.
func (t *taker) spare(ctx context.Context, name string) (string, error) {
	ext := path.Ext(name)
	if strings.TrimSuffix(path.Base(name), ext) == "" { // .env
		ext = ""
	}
	for n := range 100 {
		mark := "." + t.mark()
		if n > 0 {
			mark = fmt.Sprintf("%s-%d", mark, n+1)
		}
		out := strings.TrimSuffix(name, ext) + mark + ext
		_, err := t.files.Stat(ctx, t.w.ID, guest.EncodePath(out))
		if fault.Is(err, fault.NotFound) {
			return out, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fault.New(fault.Conflict, "file_exists", "There are too many copies of %q already: remove some.", name)
}

// list returns the requested files of a commit.
func (t *taker) list(ctx context.Context, p workspaces.Project, commit string) (map[string]git.FileEntry, error) {
	out := make(map[string]git.FileEntry)
	paths := make([]string, len(t.r.Paths))
	for i, name := range t.r.Paths {
		paths[i] = strings.TrimSuffix(name, "/")
	}
	err := git.EachBatch(paths, func(some []string) error {
		list, err := t.s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--"}, some...),
			Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the files of "+t.src.Key())
		}
		return git.ParseTree(string(list), out)
	})
	return out, err
}

// common returns the requested files of the common ancestor of both workspaces, if they are of one project.
func (t *taker) common(ctx context.Context) (map[string]git.FileEntry, error) {
	if t.p.GitDir != t.srcProject.GitDir {
		return nil, nil
	}
	here, err := t.s.snapshots.Resolve(ctx, t.w, "head", "")
	if err != nil {
		return nil, err
	}
	out, err := t.s.git.Text(ctx, hostgit.Call{GitDir: t.p.GitDir, Args: []string{"merge-base", here.Commit, t.commit}})
	if hostgit.ExitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for what the workspaces have in common")
	}
	if !git.IsCommitID(out) {
		return nil, fmt.Errorf("merge-base answered %q", out)
	}
	return t.list(ctx, t.p, out)
}

// run writes the files.
func (t *taker) run(ctx context.Context, actor accounts.Actor, out Taken) (Taken, error) {
	s, w := t.s, t.w
	var b *sandboxgit.Sandbox
	filtered := make(map[string]bool)
	if !s.sandboxes.Asleep(ctx, w) {
		var err error
		if b, err = s.sandboxes.Open(ctx, w); err != nil {
			return out, err
		}
		defer b.Close(ctx)
		if _, _, err = b.Head(ctx); err != nil {
			return out, err
		}
		var names []string
		for _, st := range t.steps {
			names = append(names, st.file.Path)
		}
		if filtered, err = Filtered(ctx, b, names); err != nil {
			return out, err
		}
	}
	snap, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: "kept", Reason: "take", Title: t.mark(), ActorID: actor.User.ID})
	if err != nil {
		return out, err
	}
	d := &discarding{s: s, p: t.p, w: w, files: t.files, b: b, filtered: filtered}
	for _, st := range t.steps {
		if st.file.State != "same" && st.file.KeptAs == "" {
			d.steps = append(d.steps, discardStep{name: st.file.Path, was: st.was})
		}
	}
	if err := d.checkKept(ctx, snap); err != nil {
		return out, err
	}
	out.SnapshotID = snap.ID
	var done []string
	for _, st := range t.steps {
		if st.file.State == "same" || st.file.State == "conflict" && t.r.OnConflict == TakeKeepBoth && !st.to.Is() {
			continue // they removed it: the local file stays
		}
		put := EntryPut{p: t.srcProject, Workspace: w, Sandbox: b, Files: t.files, Name: st.file.Path, Was: st.was, to: st.to, filtered: filtered[st.file.Path]}
		if st.file.KeptAs != "" {
			put.Name, put.Was = st.file.KeptAs, PresentFile{}
		}
		if put.to.Is() {
			err = s.putEntry(ctx, put)
		} else {
			err = RemoveFile(ctx, t.files, w.ID, put.Name, put.Was)
		}
		if fault.Is(err, fault.Precondition) || fault.CodeOf(err) == "file_exists" {
			err = sandboxgit.ChangedFault(put.Name).(*fault.Error).With("snapshot_id", snap.ID).With("files", git.EncodePaths(done)) //nolint:errorlint // our own
		}
		if err != nil {
			break
		}
		done = append(done, put.Name)
		failpoint.Reach(failpoint.PartsWriting)
	}
	if len(done) > 0 {
		s.records.Note(context.WithoutCancel(ctx), workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "take",
			Text: "Took " + NamesOf(done) + " from another workspace", Data: map[string]any{"snapshot_id": snap.ID, "files": len(done)}})
	}
	return out, err
}
