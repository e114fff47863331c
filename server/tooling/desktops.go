package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/tools/desktop"
)

func (h Desktops) desktopOf(workspaceID string, s desktop.State) api.Desktop {
	who := h.cfg.Desktops.Control(workspaceID)
	return api.Desktop{Status: api.DesktopStatus(s.Status), Reason: s.Reason, Width: s.Width, Height: s.Height, Chromium: s.Chromium,
		Control: api.DesktopControl{UserID: who.Person.ID, Name: who.Person.Name, Since: who.Since}}
}

func (h Desktops) state(ctx context.Context, workspaceID string) (api.Desktop, error) {
	s, err := h.cfg.Desktops.State(ctx, rest.CallOf(ctx).Object.TeamID, workspaceID)
	return h.desktopOf(workspaceID, s), err
}

func (h Desktops) GetDesktop(ctx context.Context, req api.GetDesktopRequestObject) (api.GetDesktopResponseObject, error) {
	d, err := h.state(ctx, req.Id)
	return api.GetDesktop200JSONResponse(d), err
}

func (h Desktops) StartDesktop(ctx context.Context, req api.StartDesktopRequestObject) (api.StartDesktopResponseObject, error) {
	call := rest.CallOf(ctx)
	s, err := h.cfg.Desktops.Start(ctx, call.Object.TeamID, req.Id, call.Actor.User.ID, desktop.Program{URL: req.Body.URL, Argv: req.Body.Argv})
	return api.StartDesktop200JSONResponse(h.desktopOf(req.Id, s)), err
}

func (h Desktops) CloseDesktop(ctx context.Context, req api.CloseDesktopRequestObject) (api.CloseDesktopResponseObject, error) {
	call := rest.CallOf(ctx)
	_, err := h.cfg.Desktops.Close(ctx, call.Object.TeamID, req.Id, call.Actor.User.ID)
	return api.CloseDesktop204Response{}, err
}

func (h Desktops) ControlDesktop(ctx context.Context, req api.ControlDesktopRequestObject) (api.ControlDesktopResponseObject, error) {
	call := rest.CallOf(ctx)
	team, user := call.Object.TeamID, call.Actor.User
	var err error
	if req.Body.Do == api.Take {
		audit.Called(ctx, "desktop.take_over")
		err = h.cfg.Desktops.Take(ctx, team, req.Id, control.Person{ID: user.ID, Name: user.Name}, req.Body.Force)
	} else {
		audit.Called(ctx, "desktop.give_back")
		err = h.cfg.Desktops.Give(ctx, team, req.Id, user.ID)
	}
	if err != nil {
		return nil, err
	}
	d, err := h.state(ctx, req.Id)
	return api.ControlDesktop200JSONResponse(d), err
}
