package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/code"
)

// newCode makes what runs code. Kernels are shared by everybody who works in a workspace, so that they get the team's and the project's
// secrets, and nobody's own.
func newCode(a *App, kept *artifacts.Service) *code.Service {
	b, w := a.base, a.worktrees
	given := commandSecrets{w.workspaces, a.people.secrets, a.work.sessions}
	return code.New(code.Config{Store: toolstore.NewCode(b.db), Sandboxes: a.sandboxes.chosen(), Workspaces: w.workspaces.Records,
		Secrets: func(ctx context.Context, c command.Command) (command.Secrets, error) {
			c.ActorID = ""
			return given.of(ctx, c)
		},
		Guard: allowedCommands{w.workspaces.Records, b.placeNow}.command,
		Keep: func(ctx context.Context, r code.Run, mimeType string, content []byte) (string, error) {
			if r.TeamID == accounts.DemoTeamID {
				return "", errors.New("visitors of the demo keep nothing")
			}
			ending := ""
			if all, err := mime.ExtensionsByType(mimeType); err == nil && len(all) > 0 {
				ending = all[0]
			}
			m := artifacts.Maker{TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, SessionID: r.SessionID, UserID: r.UserID}
			saved, err := kept.Upload(tenant.In(ctx, r.TeamID), m, artifacts.SaveRequest{Name: fmt.Sprintf("results/%s-%d%s", r.ID, len(r.Outputs)+1, ending), MIME: mimeType},
				bytes.NewReader(content), int64(len(content)), "")
			return saved.ID, err
		},
		Events: b.events, Log: b.logOf("code")})
}
