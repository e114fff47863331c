package app

import (
	"context"
	"io"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/store/toolstore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools/lsp"
)

// newLanguages makes the service of language servers.
func newLanguages(a *App) *lsp.Service {
	places := a.chosen()
	allowed := allowedCommands{a.workspaces.Records, a.placeNow}
	kept := toolstore.NewLanguages(a.base.db)
	return lsp.New(lsp.Config{Places: places, Files: languageFiles{a.files}, Workspaces: a.workspaces.Records, Records: kept, Settings: kept, Events: a.base.events, Log: a.logOf("languages"),
		Guard: func(ctx context.Context, p *executors.Place, argv []string) error {
			spec, kind, err := places.Spec(ctx, p.WorkspaceID)
			if err != nil {
				return err
			}
			return allowed.command(ctx, kind, spec, command.Request{WorkspaceID: p.WorkspaceID, Argv: argv})
		}})
}

// languageFiles are the files that language servers know and change.
type languageFiles struct{ files *filesync.Service }

// Changed implements lsp.Files.
func (l languageFiles) Changed(ctx context.Context, workspaceID string) ([]guest.Change, error) {
	set, err := l.files.SyncNow(ctx, workspaceID)
	return set.Items, err
}

// Write implements lsp.Files.
func (l languageFiles) Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error) {
	return l.files.Write(ctx, workspaceID, path, r, ifMatch)
}
