package workspaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/killpoint"
)

// Bounds of what is taken from a sandbox at a time.
const (
	maxHomePack   = 2 << 30  // bytes of a pack
	maxHomeBlob   = 1 << 30  // bytes of one file
	maxHomeAll    = 32 << 30 // bytes of all packs of one workspace: what is taken once is not given up again
	maxHomeMemory = 3 << 30  // bytes git may allocate to check it
	maxHomeRefs   = 2_000    // branches, tags and stashes
	maxStashes    = 50
	maxNegatives  = 1_000 // commits a sandbox is told it need not send
	maxKept       = 100   // commits kept that the sandbox no longer names
)

// homeTime bounds a bringing home.
const homeTime = 10 * time.Minute

// boxView is what a sandbox says its git dir holds. The names are checked, the commits not yet.
type boxView struct {
	branch, head string            // HEAD
	refs         map[string]string // refs/heads/*, refs/tags/* the host did not tell it
	told         map[string]string // refs/remotes/* and told tags as they are there now
	stash        []string          // the newest first
}

// bringHome takes the commits a boxed workspace has made into the repository, where its branch and the refs of its own follow them,
// and tells the sandbox what is new in the repository. extra are further commits to take. A workspace that is not boxed has
// nothing to bring home. What a sandbox says is refused or checked: on an error the repository is as it was.
func (s *Service) bringHome(ctx context.Context, p Project, w Workspace, b *Sandbox, extra ...string) error {
	if !s.Apart(w.ID) {
		return nil
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, homeTime)
	defer cancel()
	for range tellRounds {
		stamp := s.boxStamp(w.ID)
		view, err := s.look(ctx, w, b)
		if err != nil {
			return err
		}
		if err := s.takeHome(ctx, p, w, b, view, stamp, extra); err != nil {
			return err
		}
		if b.leave {
			return nil
		}
		// What is told moves refs in the sandbox: that these are home, too, is noted in another round.
		if told, err := s.tellBox(ctx, p, w, b, view); err != nil || !told {
			return err
		}
	}
	return nil
}

// tellRounds bounds how often a sandbox is told of a repository that keeps moving.
const tellRounds = 3

// isHome reports whether everything the sandbox has was brought home before. It is a hint: a sandbox that hides what it did only hides
// its own work.
func (s *Service) isHome(ctx context.Context, w Workspace) bool {
	if s.Remote(w.ID) {
		return s.asleep(ctx, w) // what came home is all there is
	}
	if !s.OwnGitDir(w.ID) {
		return true
	}
	stamp := s.boxStamp(w.ID)
	return stamp != "" && stamp == s.readHome(w.ID).Stamp
}

// look asks the sandbox for its refs and checks what they are called.
func (s *Service) look(ctx context.Context, w Workspace, b *Sandbox) (boxView, error) {
	v := boxView{refs: make(map[string]string), told: make(map[string]string)}
	var err error
	if v.head, v.branch, err = b.head(ctx); err != nil {
		return v, err
	}
	if v.branch != "" && !plainRef(HeadsPrefix+v.branch) {
		return v, refused("the branch has a name git does not accept")
	}
	out, err := b.Git(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes", "refs/stash")
	if err != nil {
		return v, SandboxFault(err, "worktree_unreadable", "Reading the sandbox's branches")
	}
	known := s.readTold(w.ID)
	for _, l := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		id, name, ok := strings.Cut(l, " ")
		if l == "" {
			continue
		}
		if !ok || !IsCommitID(id) || len(id) != len(v.head) || !plainRef(name) {
			return v, refused("a branch or tag has a name git does not accept")
		}
		switch {
		case name == "refs/stash":
		case strings.HasPrefix(name, "refs/remotes/"), strings.HasPrefix(name, "refs/tags/") && known[name] != "":
			v.told[name] = id
		case strings.HasPrefix(name, HeadsPrefix), strings.HasPrefix(name, "refs/tags/"):
			if v.refs[name] = id; len(v.refs) > maxHomeRefs {
				return v, refused(fmt.Sprintf("it has more than %d branches and tags of its own", maxHomeRefs))
			}
		default:
			return v, refused("it names refs it was not asked for")
		}
	}
	// HEAD was read a moment before: what its branch says by now is where it is.
	if tip := v.refs[HeadsPrefix+v.branch]; v.branch != "" && tip != "" {
		v.head = tip
	}
	if strings.Contains(out, " refs/stash\n") {
		out, err := b.Git(ctx, nil, "log", "--walk-reflogs", "--format=%H", fmt.Sprintf("--max-count=%d", maxStashes), "refs/stash", "--")
		if err != nil {
			return v, SandboxFault(err, "worktree_unreadable", "Reading the sandbox's stashes")
		}
		for _, id := range strings.Fields(out) {
			if !IsCommitID(id) || len(id) != len(v.head) || len(v.stash) == maxStashes {
				return v, refused("a stash is not a commit")
			}
			v.stash = append(v.stash, id)
		}
	}
	return v, nil
}

// plainRef reports whether git accepts the full name of a ref. It is stricter than git where nobody needs more.
func plainRef(name string) bool {
	if len(name) > 400 || !strings.HasPrefix(name, "refs/") || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\\uFFFD", r) })
}

func refused(why string) error {
	return fault.New(fault.Conflict, "commits_refused", "What the sandbox sent of its commits was refused: %s. The project is as it was.", why)
}

// homeRefs are the refs of the repository that follow the sandbox's, by their names there.
func (v boxView) homeRefs(w Workspace) map[string]string {
	own := AgentRefs(w.ID)
	refs := make(map[string]string)
	for name, id := range v.refs {
		if name != HeadsPrefix+w.Branch {
			refs[own+strings.TrimPrefix(name, "refs/")] = id
		}
	}
	for i, id := range v.stash {
		refs[own+"stash/"+strconv.Itoa(i)] = id
	}
	if v.branch == "" {
		refs[own+"detached"] = v.head
	}
	return refs
}

// takeHome takes what the repository does not have and moves its refs.
func (s *Service) takeHome(ctx context.Context, p Project, w Workspace, b *Sandbox, v boxView, stamp string, extra []string) error {
	tip := v.refs[HeadsPrefix+w.Branch]
	was, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch)
	if err != nil {
		return err
	}
	have, err := s.RefsBelow(ctx, p, AgentRefs(w.ID))
	if err != nil {
		return err
	}
	want := v.homeRefs(w)
	told := s.readTold(w.ID)
	known := map[string]bool{was: true}
	for _, m := range [...]map[string]string{told, have} {
		for _, id := range m {
			known[id] = true
		}
	}
	for name, id := range want { // a copy of the base's branch that nobody worked on is no work
		if head := "refs/" + strings.TrimPrefix(name, AgentRefs(w.ID)); known[id] && have[name] == "" && told[head] == id {
			delete(want, name)
		}
	}
	tips := make(map[string]bool) // by commit: whether it must be one
	add := func(id string, commit bool) {
		if id != "" && !known[id] {
			tips[id] = tips[id] || commit
		}
	}
	add(tip, true)
	add(v.head, true)
	for name, id := range want {
		add(id, !strings.HasPrefix(name, AgentRefs(w.ID)+"tags/"))
	}
	for _, id := range extra {
		add(id, true)
	}
	state := s.readHome(w.ID)
	if len(tips) > 0 && s.Remote(w.ID) { // of a history that is cut not all that is known here is there
		there, err := b.has(ctx, firstOf(known, maxNegatives))
		if err != nil {
			return err
		}
		known = there
	}
	if len(tips) > 0 { // what was pruned of the repository must come again, though the sandbox still has it
		here, err := s.typed(ctx, p, sortedKeys(known))
		if err != nil {
			return err
		}
		maps.DeleteFunc(known, func(id string, _ bool) bool { return here[id] == "" })
		n, err := s.takePack(ctx, p, w, b, tips, known, state.Bytes)
		if err != nil {
			return err
		}
		if state.Bytes += n; n > 0 {
			if err := s.writeHome(w.ID, state); err != nil {
				return err
			}
		}
	}
	killpoint.Reach(killpoint.HomeTaken)
	index := state.Index
	if state.Head != v.head {
		index = ""
	}
	if s.Remote(w.ID) { // should its sandbox be gone in a moment, this is all that says where it was
		if err := s.writeHome(w.ID, homeState{Branch: v.branch, Head: v.head, Tip: tip, Index: index, Bytes: state.Bytes}); err != nil {
			return err
		}
	}
	if err := s.moveHome(ctx, p, w, v, was, state.Tip, have, want); err != nil {
		return err
	}
	killpoint.Reach(killpoint.HomeMoved)
	return s.writeHome(w.ID, homeState{Stamp: stamp, Branch: v.branch, Head: v.head, Tip: tip, Index: index, Bytes: state.Bytes})
}

// firstOf returns the first n names.
func firstOf(names map[string]bool, n int) []string {
	ids := unique(sortedKeys(names))
	return ids[:min(len(ids), n)]
}

// takePack has the sandbox pack what the tips reach beyond known, which this server knows it may read, and takes it. What comes stands on
// that alone: a sandbox that names an object of somebody else's does not get it by that. before is how many bytes were taken of the workspace up to now; it
// returns how many came.
func (s *Service) takePack(ctx context.Context, p Project, w Workspace, b *Sandbox, tips, known map[string]bool, before int64) (int64, error) {
	if err := s.lend(ctx, p, w, sortedKeys(known)...); err != nil {
		return 0, err
	}
	own := s.ownStore(w.ID).objects()
	var ask strings.Builder
	for _, id := range sortedKeys(tips) {
		ask.WriteString(id + "\n")
	}
	ask.WriteString("--not\n")
	for i, id := range sortedKeys(known) {
		if id != "" && i < maxNegatives {
			ask.WriteString(id + "\n")
		}
	}
	in, err := s.git.Intake(ctx, s.TmpDir(), p.GitDir, own)
	if err != nil {
		return 0, DiskFault(err, "Taking the workspace's commits home")
	}
	defer func() { _ = in.Close() }()
	limits := hostgit.IntakeLimits{Bytes: maxHomePack, Blob: maxHomeBlob, Memory: maxHomeMemory, Time: homeTime}
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { // owned by this call: ends with the sandbox's command, which is bounded
		err := b.pack(ctx, ask.String(), pw)
		_ = pw.Close()
		done <- err
	}()
	err = in.Take(ctx, pr, limits)
	_ = pr.Close()
	if packed := <-done; packed != nil && (err == nil || !errors.Is(packed, errPipe)) {
		return 0, packed
	}
	if err == nil {
		err = in.Check(ctx, tips, limits, unique(sortedKeys(known))...)
	}
	if err == nil {
		err = s.noSecretHome(ctx, w.ID, in, tips, known, limits)
	}
	if fault.CodeOf(err) == "commits_hold_secret" || fault.CodeOf(err) == "secrets_unknown" {
		return 0, err
	}
	if errors.Is(err, hostgit.ErrRefused) {
		return 0, refused(strings.TrimSuffix(strings.TrimPrefix(err.Error(), hostgit.ErrRefused.Error()+": "), "."))
	}
	if err != nil {
		return 0, GitFault(err, fault.Unavailable, "home_failed", "Taking the workspace's commits home")
	}
	size := in.Size()
	if before+size > maxHomeAll {
		return 0, refused(fmt.Sprintf("the workspace has sent more than %d GiB of commits in all", maxHomeAll>>30))
	}
	if err := in.CopyTo(own); err != nil { // what it has sent it may stand on
		return 0, DiskFault(err, "Taking the workspace's commits home")
	}
	killpoint.Reach(killpoint.HomeChecked)
	if err := in.Keep(); err != nil {
		return 0, DiskFault(err, "Taking the workspace's commits home")
	}
	return size, s.noteLent(ctx, p, w, sortedKeys(tips))
}

// errPipe says that the taker had enough before the giver was done.
var errPipe = errors.New("what was packed was not taken")

// pack streams a pack of what ask names.
func (b *Sandbox) pack(ctx context.Context, ask string, to *os.File) error {
	broken := &noted{w: to}
	r, err := b.run(ctx, executors.BoxCommand{Argv: b.argv("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"), Stdin: []byte(ask),
		Stdout: broken, MaxOutput: maxHomePack + 1<<20})
	switch {
	case broken.err != nil:
		return errPipe
	case err != nil:
		return err
	case r.ExitCode != 0:
		return packFault(&boxError{sub: "pack-objects", result: r})
	}
	return nil
}

// packFault says why a sandbox did not pack its commits. What its git dies of, such as a branch or a commit that names what is not there,
// is the same at the next try: the commits are refused, which is told to people, and not only to who merges.
func packFault(e *boxError) error {
	err := SandboxFault(e, "home_failed", "Packing the workspace's commits")
	if boxCode(e) != 128 || fault.Is(err, fault.DiskFull) || e.words() == "" {
		return err
	}
	return refused("its git cannot pack them (" + strings.TrimSuffix(e.words(), ".") + ")")
}

// noted remembers that a write failed.
type noted struct {
	w   *os.File
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if err != nil {
		n.err = err
	}
	return k, err
}
