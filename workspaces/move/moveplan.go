package move

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// MoveItem is something that a move takes along, loses or changes.
type MoveItem struct {
	What   string // a stable word: branch, files, refs, scrollback, copied_files, home; processes, ignored, ports, temp, logins
	Detail string // text for people
	Bytes  int64  // 0 = unknown
}

// MovePlan is what a move would do. Making it changes nothing.
type MovePlan struct {
	From, To      executors.Capabilities
	Possible      bool
	Reason        string // why not, for people
	Code          string // the stable code of the error
	Carried, Lost []MoveItem
	Changes       []string // other differences there, one sentence each
	Sessions      []workspaces.MovedSession
	PriceNano     int64 // nano-USD per hour there; 0 = free
}

// PlanMove returns what a move to another executor would take along and lose. A reason why it is not allowed is in the plan, not an error.
func (s *Service) PlanMove(ctx context.Context, actor accounts.Actor, workspaceID, to, folder string) (MovePlan, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return MovePlan{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return MovePlan{}, err
	}
	c := s.records.Chooser()
	if c == nil {
		return MovePlan{}, fault.New(fault.Unsupported, "executor_fixed", "Executors cannot be chosen on this server.")
	}
	from, known := c.Place(ctx, executors.Kind(w.Executor))
	if !known {
		from = executors.Capabilities{Kind: executors.Kind(w.Executor), Name: s.placeWords(ctx, c, executors.Kind(w.Executor))}
	}
	plan := MovePlan{From: from, Possible: true}
	kind, _, err := s.mayMove(ctx, actor, w, to, folder)
	if err == nil {
		err = s.Moving(ctx, w.ID)
	}
	if err != nil {
		if fault.KindOf(err) == fault.Internal {
			return MovePlan{}, err
		}
		plan.Possible, plan.Reason, plan.Code = false, git.Reason(err), fault.CodeOf(err)
		if kind = executors.Kind(to); kind == "" {
			kind = executors.Auto
		}
	}
	if plan.To, known = c.Place(ctx, kind); !known {
		plan.To = executors.Capabilities{Kind: kind}
		return plan, nil // nothing to compare with
	}
	plan.PriceNano = plan.To.PriceNano
	if _, sessions, err := s.records.Connected(); err == nil {
		if movers, ok := sessions.(workspaces.Movers); ok {
			if plan.Sessions, err = s.planSessions(ctx, movers, w, from, plan.To); err != nil {
				return MovePlan{}, err
			}
		}
	}
	lost := c.Lost(ctx, w.ID)
	if err := s.planCarried(ctx, p, w, &plan, lost); err != nil {
		return MovePlan{}, err
	}
	s.planLost(&plan, !s.sandboxes.Separate(w.ID))
	if s.snapshots.HasFiles(w) {
		s.planIgnored(ctx, p, w, &plan, lost)
	}
	if lost {
		plan.loses("unseen", "What only the old sandbox has and this server does not: it is unreachable.")
	}
	if plan.From.Isolated != plan.To.Isolated || plan.From.SharedHome || plan.To.SharedHome {
		plan.loses("logins", "Logins and settings that agents have in their home: they get another one there. Accounts chosen in Parawork come along.")
	}
	plan.loses("temp", "/tmp and programs that were installed in the old sandbox.")
	plan.Changes = executors.Differences(from, plan.To)
	return plan, nil
}

// planCarried lists what comes along.
func (s *Service) planCarried(ctx context.Context, p workspaces.Project, w workspaces.Workspace, plan *MovePlan, lost bool) error {
	add := func(what string, bytes int64, format string, args ...any) {
		plan.Carried = append(plan.Carried, MoveItem{what, fmt.Sprintf(format, args...), bytes})
	}
	tip, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	if err != nil {
		return err
	}
	switch {
	case tip == "":
		add("branch", 0, "The branch %s.", w.Branch)
	default:
		add("branch", 0, "The branch %s with all its commits, at %s.", w.Branch, tip[:12])
	}
	if s.snapshots.HasFiles(w) && !lost {
		paths, err := s.planFiles(ctx, p, w)
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "what differs in a workspace's files could not be read for the plan of a move", "workspace_id", w.ID, "error", err)
			add("files", 0, "All uncommitted files: changed, staged and untracked ones.")
		} else if len(paths) > 0 {
			add("files", sizeBelow(w.Path, paths), "%s: changed, staged and untracked ones.", git.Plural(len(paths), "uncommitted file", "uncommitted files"))
		}
	}
	if lost {
		add("files", 0, "Files and commits as they were last synced to this server: the old sandbox is unreachable.")
	}
	switch apart := s.sandboxes.Separate(w.ID); {
	case apart && (plan.To.Isolated || plan.To.OwnDisk):
		add("refs", 0, "Other branches, tags and stashes that were made in it.")
	case apart:
		add("refs", 0, "Other branches, tags and stashes that were made in it: they are in the project's repository, below %s.", sandboxgit.AgentRefs(w.ID))
	case plan.To.Isolated && !plan.To.OwnDisk:
		add("refs", 0, "Other branches and tags of the project's repository, as those of origin.")
	}
	if plan.To.OwnDisk && len(p.CopyIgnored) > 0 {
		add("copied_files", 0, "Ignored files that the project copies into each workspace, as they are on this server: %s.", strings.Join(p.CopyIgnored, ", "))
	}
	add("scrollback", 0, "The history of every terminal, readable as before.")
	return nil
}

// planFiles lists the differences from the worktree's commit: as its sandbox has them, else as this server has them.
func (s *Service) planFiles(ctx context.Context, p workspaces.Project, w workspaces.Workspace) ([]string, error) {
	b, err := s.liveBox(ctx, w)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return s.sandboxes.LocalChanges(ctx, p, w)
	}
	out, err := b.Git(ctx, nil, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the worktree")
	}
	var names []string
	for _, line := range git.SplitZero(out) {
		if len(line) > 3 {
			names = append(names, line[3:])
		}
	}
	return names, nil
}

// sizeBelow adds up the sizes of the regular files among paths.
func sizeBelow(dir string, paths []string) (sum int64) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	for _, p := range paths {
		if fi, err := root.Lstat(p); err == nil && fi.Mode().IsRegular() {
			sum += fi.Size()
		}
	}
	return sum
}

func (plan *MovePlan) loses(what, format string, args ...any) {
	plan.Lost = append(plan.Lost, MoveItem{What: what, Detail: fmt.Sprintf(format, args...)})
}

// planLost lists what is lost or ends. here says that the workspace works in the project's own repository.
func (s *Service) planLost(plan *MovePlan, here bool) {
	ends, restarts, waits := 0, 0, 0
	for _, m := range plan.Sessions {
		switch m.How {
		case workspaces.MoveEnds:
			ends++
		case workspaces.MoveRestarts:
			restarts++
		case workspaces.MoveWaits:
			waits++
		}
	}
	if ends > 0 {
		plan.loses("shells", "%s: what runs in it ends.", git.Plural(ends, "shell or command", "shells and commands"))
	}
	if restarts > 0 {
		plan.loses("conversations", "%s restarted: the record of the conversation stays behind.", git.Plural(restarts, "agent begins", "agents begin"))
	}
	if waits > 0 {
		plan.loses("agents", "%s until the target has its program. Move anyway, install it there first, or choose another executor.", git.Plural(waits, "agent is not resumed", "agents are not resumed"))
	}
	plan.loses("processes", "Everything that runs in the old sandbox: servers, watchers, what agents started in the background.")
	plan.loses("ports", "Previews of ports, until their programs run again.")
	switch {
	case here && plan.To.OwnDisk:
		plan.loses("refs", "Stashes, and branches and tags other than the workspace's own and its base: they stay in the project's repository on this server.")
	case here && plan.To.Isolated:
		plan.loses("refs", "Stashes: they stay in the project's repository on this server.")
	}
}

// planIgnored lists what happens to ignored files.
func (s *Service) planIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, plan *MovePlan, lost bool) {
	if !plan.From.OwnDisk && !plan.To.OwnDisk {
		plan.Carried = append(plan.Carried, MoveItem{What: "ignored", Detail: "Ignored files such as installed packages: both executors work on the same folder."})
		return
	}
	b, err := s.liveBox(ctx, w)
	if err != nil {
		b = nil // as this server has it
	}
	chosen, err := s.planChosen(ctx, p, w, b, lost)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the ignored files that a project selects could not be listed for the plan of a move", "workspace_id", w.ID, "error", err)
		plan.Carried = append(plan.Carried, MoveItem{What: "kept_ignored", Detail: "Ignored files that the project selects: they could not be listed now. A move that cannot bring them along does not leave the old sandbox."})
	}
	reported := make(map[string]bool)
	var names []string
	for _, f := range chosen.Files {
		reported[f.Name] = true
		names = append(names, guest.EncodePath(f.Name))
	}
	if len(names) > 0 {
		as := ""
		if s.sandboxes.Remote(w.ID) && (b == nil || lost) {
			as = ", as they were last synced to this server"
		}
		plan.Carried = append(plan.Carried, MoveItem{"kept_ignored", fmt.Sprintf("%s that the project selects, %s%s: %s.", git.Plural(len(names), "ignored file", "ignored files"), git.SizeWords(chosen.Bytes()), as, git.SomeNames(names)), chosen.Bytes()})
	}
	stays := "They are not sent there, and stay on this server."
	if plan.From.OwnDisk {
		stays = "They are lost with the old sandbox."
	}
	for _, m := range chosen.Left {
		reported[guest.DecodePath(m.Path)] = true
	}
	if len(chosen.Left) > 0 {
		plan.loses("kept_left", "%s that the project selects: %s. %s", git.Plural(len(chosen.Left), "ignored file", "ignored files"), snapshot.MissingWords(chosen.Left), stays)
	}
	if lost {
		return
	}
	words := ignoredWords(s.ignoredLeft(ctx, b, func(name string) bool {
		return reported[name] || !plan.From.OwnDisk && !strings.HasSuffix(name, "/") && ignored.Wants(p.CopyIgnored, name)
	}), len(chosen.Files)+len(chosen.Left) > 0) + ". " + stays
	if plan.To.OwnDisk && strings.TrimSpace(p.SetupScript) != "" {
		words += " The setup script runs in the new sandbox."
	}
	plan.loses("ignored", "%s", words)
}
