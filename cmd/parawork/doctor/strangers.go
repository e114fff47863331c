package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/projects"
)

// strangers says what runs without a row, and which folders two teams share.
func (r *report) strangers(ctx context.Context, cfg *config.Config, st store.State, places []executors.Executor) {
	if st.Missing || st.Empty || st.Problem != nil || st.Known == 0 || st.Applied != st.Known {
		return
	}
	ctx = tenant.All(ctx, "the doctor looks at sandboxes and folders of every team")
	err := store.Peek(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir, AllTeams: true}, func(db *store.DB) error {
		found, err := fromconfig.Strangers(ctx, places, db)
		if err != nil {
			return err
		}
		for e, list := range found {
			var ids []string
			for _, h := range list {
				ids = append(ids, h.ID)
			}
			r.say(minor, "sandboxes", fmt.Sprintf("%s in %s that the database does not know, and that the server leaves alone: %s", instance.Count(len(ids), "sandbox"), e.Kind(), strings.Join(ids, ", ")),
				"Put the newer database back; or look into them, then stop the server and run: parawork admin adopt-leftovers --end-sandboxes")
		}
		all, err := store.NewWorkspaces(db).FolderProjects(ctx)
		if err != nil {
			return err
		}
		for _, pair := range projects.SharedFolders(all) {
			r.say(minor, "folders", fmt.Sprintf("two teams have projects in %s (%s, %s): each may read the other's work there", pair[0].Source, pair[0].ID, pair[1].ID),
				"Delete one of the two projects, and add it again by its URL or as a copy made with git clone --no-hardlinks.")
		}
		return nil
	})
	if err != nil {
		r.say(minor, "sandboxes", "what runs could not be compared with the database: "+err.Error(), "")
	}
}
