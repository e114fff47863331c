// Package tooling has the operations of the HTTP API about tools and what they keep: tasks, artifacts, checkpoints, subagents, verification,
// edits, memory, language servers, desktops, permissions and the record of calls. A handler maps the request, calls one service and maps the answer.
//
// It starts no goroutine and holds no lock.
package tooling

import (
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/server/contentorigin"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/calllog"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/memory"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
	"github.com/parawork/parawork/tools/toolgroups"
)

// Config is what the operations are made of. A feature of a folder below tools adds its service.
type Config struct {
	Tools       *tools.Set
	Calls       *calllog.Service
	Tasks       *tasks.Service
	Issues      *issues.Service
	Subagents   *subagents.Service
	Directory   *directory.Service
	Artifacts   *artifacts.Service
	Content     *contentorigin.Origin // where pages and PDFs are shown; nil = on the API's own origin
	PublicURL   string                // whose pages may show what is there
	Checkpoints *checkpoints.Service
	Groups      *toolgroups.Service
	Memory      *memory.Service
	Skills      *skills.Service
	Edits       *edits.Service
	Languages   *lsp.Service
	Desktops    *desktop.Service
	Permissions *permissions.Service

	Now func() time.Time
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// The operations, a type for each subject.
type (
	// Tools are what agents may call.
	Tools struct{ *group }
	// Calls are the calls that were made of them.
	Calls struct{ *group }
	// Tasks are planned work.
	Tasks struct{ *group }
	// Artifacts are files that outlive the sandbox they were made in.
	Artifacts struct{ *group }
	// Subagents are agents that work on a part of another agent's task.
	Subagents struct{ *group }
	// Checkpoints are states of a workspace to go back to.
	Checkpoints struct{ *group }
	// Memory is what a project's agents and people remember.
	Memory struct{ *group }
	// Skills are procedures that agents read when they need them, and instructions that Parawork's own agent always reads.
	Skills struct{ *group }
	// Edits are changes of files, and who made them.
	Edits struct{ *group }
	// Languages are the language servers of a workspace.
	Languages struct{ *group }
	// Desktops are screens in sandboxes, with windows and a mouse.
	Desktops struct{ *group }
	// Permissions are rules about the calls of Parawork's own agent.
	Permissions struct{ *group }
)

// Tooling has all operations of the package.
type Tooling struct {
	Tools
	Calls
	Tasks
	Artifacts
	Subagents
	Checkpoints
	Memory
	Skills
	Edits
	Languages
	Desktops
	Permissions
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) Tooling {
	g := &group{shared, cfg}
	return Tooling{Tools{g}, Calls{g}, Tasks{g}, Artifacts{g}, Subagents{g}, Checkpoints{g}, Memory{g}, Skills{g}, Edits{g}, Languages{g}, Desktops{g}, Permissions{g}}
}
