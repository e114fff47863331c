// Package running has the operations of the HTTP API about what runs in workspaces: sessions, their prompts, questions, conversations and
// history, commands, and the images sandboxes are made from. A handler maps the request, calls one service and maps the answer. Admission
// says who may have something done in a workspace's place.
//
// It starts no goroutine but one that keeps a stream of events awake, which ends with its request; a lock lets that and the command write in
// turns.
package running

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/demo"
	"github.com/parawork/parawork/tools/sandboxes"
)

// Config is what the operations are made of.
type Config struct {
	Image string // what containers are made from unless a project says otherwise

	Directory   *directory.Service
	Sessions    *sessions.Service
	Prompts     *prompt.Queue
	Questions   *question.Board
	History     *history.Recordings
	Commands    *command.Commands
	Code        *code.Service
	Sandboxes   *sandboxes.Service
	Demo        *demo.Service // nil = off
	Agent       *agent.Service
	Models      *models.Service // of Agent
	Jobs        *jobs.Service
	Automations *triggers.Service
	Places      *manager.Manager
	Images      *images.Service
	Tokens      *tokens.Meter
	Standings   places.Standings
	// Costs returns what workspaces cost so far, nano-USD.
	Costs func(ctx context.Context, workspaceIDs []string) (map[string]int64, error)
	// Parents returns the sessions that started sessions as subagents, by session.
	Parents func(ctx context.Context, sessionIDs ...string) (map[string]string, error)
	// SecretsIn finds the values of a team's secrets in text; nil = it has none.
	SecretsIn func(ctx context.Context, teamID string) (*redact.Finder, error)

	Now func() time.Time
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// The operations, a type for each subject.
type (
	// Sessions are agents and shells that run or ran.
	Sessions struct{ *group }
	// Conversations are what people and agents said.
	Conversations struct{ *group }
	// Prompts wait for their turn in a session.
	Prompts struct{ *group }
	// Questions are what agents ask.
	Questions struct{ *group }
	// History is what sessions printed.
	History struct{ *group }
	// Replay shows sessions as they went.
	Replay struct{ *group }
	// Commands run once and have an answer.
	Commands struct{ *group }
	// Code runs in interpreters that keep their variables.
	Code struct{ *group }
	// Sandboxes have no repository.
	Sandboxes struct{ *group }
	// Demo is for people who are not signed in.
	Demo struct{ *group }
	// Images are what sandboxes of projects are made from.
	Images struct{ *group }
	// Threads are the conversations of Parawork's own agent.
	Threads struct{ *group }
	// Jobs are work that scripts ask for.
	Jobs struct{ *group }
	// Automations start jobs by themselves.
	Automations struct{ *group }
)

// Running has all operations of the package.
type Running struct {
	Sessions
	Conversations
	Prompts
	Questions
	History
	Replay
	Commands
	Code
	Sandboxes
	Demo
	Images
	Threads
	Jobs
	Automations
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) Running {
	g := &group{shared, cfg}
	return Running{Sessions{g}, Conversations{g}, Prompts{g}, Questions{g}, History{g}, Replay{g}, Commands{g}, Code{g}, Sandboxes{g}, Demo{g}, Images{g}, Threads{g}, Jobs{g}, Automations{g}}
}
