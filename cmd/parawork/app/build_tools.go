package app

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/store/toolstore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/calllog"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/demo"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/files"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/memory"
	"github.com/parawork/parawork/tools/review"
	"github.com/parawork/parawork/tools/run"
	apisandboxes "github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/tools/serve"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
	"github.com/parawork/parawork/tools/toolgroups"
	"github.com/parawork/parawork/tools/verification"
	"github.com/parawork/parawork/tools/web"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// toolbox is what agents may call, with the services behind it.
type toolbox struct {
	toolCalls   *calllog.Service
	tools       *tools.Set
	tasks       *tasks.Service
	issues      *issues.Service
	artifacts   *artifacts.Service
	subagents   *subagents.Service
	checkpoints *checkpoints.Service
	memory      *memory.Service
	skills      *skills.Service
	edits       *edits.Service
	browsers    *browser.Service
	desktops    *desktop.Service
	code        *code.Service
	sandboxes   *apisandboxes.Service
	demo        *demo.Service // nil = off
	groups      *toolgroups.Service
	languages   *lsp.Service
	relayed     *serve.Server // to agents in sandboxes
	agent       *agent.Service
	models      *models.Service      // of it
	permissions *permissions.Service // of that agent's calls
}

// newToolbox makes the services below tools, and of their tools one Set.
func newToolbox(a *App, version string) (_ *toolbox, err error) {
	b, p, w, s, on := a.base, a.people, a.worktrees, a.sandboxes, a.work
	t := &toolbox{}
	if t.artifacts, err = newArtifacts(b, p, w, s, on); err != nil {
		return nil, err
	}
	t.toolCalls = calllog.New(calllog.Config{Store: toolstore.NewCalls(b.db), Events: b.events, Log: b.logOf("tools")})
	kept, rows, edited := toolstore.NewIssues(b.db), toolstore.NewTasks(b.db), toolstore.NewEdits(b.db)
	t.tasks = tasks.NewService(tasks.Config{Store: rows, Projects: w.workspaces.Records, Outbox: kept, Files: on.files, FileOf: kept.TasksFile, Edits: edited, Secrets: p.secrets, Events: b.events, Bus: b.bus, Log: b.logOf("tasks")})
	t.issues = issues.New(issues.Config{Store: kept, Tasks: t.tasks, Rows: rows, Forges: on.forge, Secrets: p.secrets, Events: b.events, Log: b.logOf("tasks")})
	t.subagents = newSubagents(a, t)
	t.checkpoints = newCheckpoints(a, t)
	t.skills = newSkills(a)
	t.memory = memory.New(memory.Config{Store: toolstore.NewMemory(b.db), Workspaces: w.workspaces.Records, Secrets: p.secrets, Events: b.events,
		Embedder: a.money.gateway, EmbeddingModel: b.cfg.Memory.EmbeddingModel, Log: b.logOf("tools")})
	t.edits = edits.New(edits.Config{Store: edited, Snapshots: w.workspaces.Snapshots, Repository: git.Contents{Repo: w.workspaces.Repo}, Undoer: w.workspaces.Lifecycle, Workspaces: w.workspaces.Records,
		Sessions: a.sessions, Actor: p.directory.Actor, Bus: b.bus, Events: b.events, Log: b.logOf("edits")})
	t.languages = newLanguages(a)
	t.browsers = newBrowsers(b, w, s, p.secrets, t.artifacts)
	t.desktops = newDesktops(b, w, s, t.artifacts)
	t.code = newCode(a, t.artifacts)
	t.sandboxes = newSandboxService(a)
	t.demo = newDemo(a, t)
	commands := run.New(on.commands, time.Now)
	t.tools, err = tools.New(tools.Config{
		Tools: slices.Concat(
			t.checkpoints.Tools(),
			t.edits.Tools(),
			[]tools.Tool{commands, web.New(on.commands)}, commands.Following(),
			t.tasks.Tools(),
			t.artifacts.Tools(),
			t.subagents.Tools(),
			t.memory.Tools(),
			t.skills.Tools(),
			[]tools.Tool{verification.New(verification.Config{Checks: on.checks, Changed: changedPaths(on.files), Verified: t.edits.Verified, Log: b.logOf("tools")})},
			review.New(review.Config{Reviews: on.reviews, Workspaces: w.workspaces.Records, Secrets: p.secrets}),
			t.languages.Tools(),
			t.browsers.Tools(),
			t.desktops.Tools(),
			t.code.Tools(),
			newFileTools(a).Tools(),
			media.Tools(threadstore.New(b.db)),
		),
		Secrets: p.secrets, Recorder: t.toolCalls, Log: b.logOf("tools"),
	})
	if err != nil {
		return nil, err
	}
	t.groups = toolgroups.New(toolstore.NewGroups(b.db), t.tools.Specs())
	t.relayed = serve.New(serve.Config{Tools: t.tools, People: p.directory, Workspaces: w.workspaces.Records, Groups: t.groups, Languages: t.languages, Narrow: t.subagents.ToolsFor, Admit: s.choice.Admit, Version: version, Log: b.logOf("tools")})
	t.permissions = permissions.New(permissions.Config{Store: threadstore.NewPermissions(b.db), Specs: t.tools.Specs(), Events: b.events})
	t.models = newModels(a)
	t.agent = newAgent(a, t)
	return t, nil
}

// newFileTools makes the tools that read, change and find files.
func newFileTools(a *App) *files.Service {
	w := a.worktrees.workspaces
	return files.New(files.Config{Sandboxes: a.sandboxes.chosen(), Workspaces: w.Records, Secrets: w.SecretFiles.SecretFiles,
		Keep: func(ctx context.Context, workspaceID, path, userID string) error {
			_, err := w.Snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: snapshot.SnapKept, Reason: "edit", Title: path, ActorID: userID})
			return err
		}})
}

// changedPaths returns the paths of a workspace's changes as they are now; of a renamed file both.
func changedPaths(files *filesync.Service) func(ctx context.Context, workspaceID string) ([]string, error) {
	return func(ctx context.Context, workspaceID string) ([]string, error) {
		set, err := files.SyncNow(ctx, workspaceID)
		if err != nil {
			return nil, err
		}
		var paths []string
		for _, c := range set.Items {
			paths = append(paths, guest.DecodePath(c.Path))
			if c.OldPath != "" {
				paths = append(paths, guest.DecodePath(c.OldPath))
			}
		}
		return paths, nil
	}
}
