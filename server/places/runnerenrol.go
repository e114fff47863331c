package places

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Enrolment) CreateRunner(ctx context.Context, req api.CreateRunnerRequestObject) (api.CreateRunnerResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	options, err := runnerOptions(b)
	if err != nil {
		return nil, err
	}
	t, token, err := h.cfg.Machines.NewToken(ctx, call.Team.ID, call.Actor.User.ID, rest.Val(b.Name), rest.Val(b.Reusable))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "runner_token", t.ID, t.Name)
	if t.Name != "" && !t.Reusable {
		options = append([]string{"--name", t.Name}, options...)
	}
	return api.CreateRunner201JSONResponse(h.enrolment(call.Request, t, token, options)), nil
}

func (h Enrolment) RegenerateRunner(ctx context.Context, req api.RegenerateRunnerRequestObject) (api.RegenerateRunnerResponseObject, error) {
	call := rest.CallOf(ctx)
	if call.Machine.UserID != call.Actor.User.ID {
		return nil, fault.New(fault.Forbidden, "not_your_machine", "Only the member a machine belongs to can give it a new key. You can revoke it, if you manage the team.")
	}
	t, token, err := h.cfg.Machines.Regenerate(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	// How it runs was said on the machine and is kept there.
	return api.RegenerateRunner200JSONResponse(h.enrolment(call.Request, t, token, nil)), nil
}

var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,299}$`)

// runnerOptions are the options of the line that say how the machine is to run.
func runnerOptions(b *api.NewRunner) ([]string, error) {
	field := func(name, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_runner_options", format, args...).With("field", name)
	}
	mode, image, network := string(rest.Val(b.Mode)), rest.Val(b.Image), string(rest.Val(b.Network))
	direct := mode == string(wire.Direct)
	switch {
	case b.Mode != nil && !b.Mode.Valid():
		return nil, field("mode", "mode is docker, bubblewrap or direct.")
	case b.Network != nil && !b.Network.Valid():
		return nil, field("network", "network is host, open or none.")
	case direct && !rest.Val(b.Dangerous):
		return nil, fault.New(fault.Invalid, "dangerous_required", "In mode direct, agents run without isolation, with all the rights of the machine's user. Set dangerous to true to accept that.").With("field", "dangerous")
	case rest.Val(b.Dangerous) && !direct && mode != "":
		return nil, field("dangerous", "dangerous goes with mode direct alone.")
	case image != "" && (direct || mode == string(wire.Bubblewrap) || rest.Val(b.Dangerous)):
		return nil, field("image", "An image goes with mode docker alone.")
	case image != "" && !imageName.MatchString(image):
		return nil, field("image", "image must be the name of an image such as ubuntu:latest.")
	case network != "" && (direct || rest.Val(b.Dangerous)):
		return nil, field("network", "Without isolation nothing bounds the network.")
	}
	var out []string
	if rest.Val(b.Dangerous) {
		out = append(out, "--dangerous")
	}
	if mode != "" && !direct { // said, so that no other is taken where it cannot be had
		out = append(out, "--mode", mode)
	}
	if image != "" {
		out = append(out, "--image", image)
	}
	if network != "" {
		out = append(out, "--network", network)
	}
	return out, nil
}

// enrolment is the answer with a token: the line to run, and where the program for it is.
func (h Enrolment) enrolment(r *http.Request, t machines.Token, token string, options []string) api.RunnerEnrolment {
	server := h.Here(r)
	args := append([]string{"parawork", "runner", "--server", server, "--token", token}, options...)
	for i, a := range args {
		args[i] = quoted(a)
	}
	out := api.RunnerEnrolment{Id: t.ID, Name: t.Name, Token: token, Command: strings.Join(args, " "), Server: server, ExpiresAt: rest.Ptr(t.ExpiresAt), Reusable: t.Reusable,
		Downloads: rest.List(h.cfg.Downloads.List(), func(d machines.Download) api.RunnerDownload { return h.downloadOf(server, d) })}
	if t.Renews {
		out.RunnerId = rest.Text(t.RunnerID)
	}
	for i := range out.Downloads {
		if d := &out.Downloads[i]; d.Available {
			d.Line = d.Install + " && ./" + out.Command
		}
	}
	switch loop := rest.LoopbackHost(hostOf(server)); {
	case loop:
		out.Warning = "Only this very machine reaches the server at this address. For others, set server.publicUrl in config.json to the address people use."
	case strings.HasPrefix(server, "http://"):
		out.Warning = "This address is plain http: whoever can read the network on the way can read the token and use it first. Use https."
	}
	return out
}

func hostOf(address string) string {
	_, host, _ := strings.Cut(address, "://")
	return host
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// quoted is a word as a shell takes it literally.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (h Enrolment) ListRunnerTokens(ctx context.Context, _ api.ListRunnerTokensRequestObject) (api.ListRunnerTokensResponseObject, error) {
	call := rest.CallOf(ctx)
	all, err := h.cfg.Machines.Tokens(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	c, err := h.machines.crowdOf(ctx, call.Team.ID, call.Team.Slug)
	if err != nil {
		return nil, err
	}
	every, out := call.Can(accounts.ManageTeam) == nil, api.ListRunnerTokens200JSONResponse{Items: []api.RunnerToken{}}
	for _, t := range all {
		if mine := t.UserID == call.Actor.User.ID; mine || every {
			out.Items = append(out.Items, api.RunnerToken{Id: t.ID, Name: t.Name, UserId: t.UserID, UserName: c.names[t.UserID], Reusable: t.Reusable, RunnerId: rest.Text(t.RunnerID),
				Uses: t.Uses, CreatedAt: t.CreatedAt, UsedAt: rest.Ptr(t.UsedAt), ExpiresAt: rest.Ptr(t.ExpiresAt), Mine: mine})
		}
	}
	return out, nil
}

// RevokeRunnerToken ends a token of the caller's, or of anybody's in a team they manage. Others' look as if they were not there.
func (h Enrolment) RevokeRunnerToken(ctx context.Context, req api.RevokeRunnerTokenRequestObject) (api.RevokeRunnerTokenResponseObject, error) {
	call := rest.CallOf(ctx)
	t, err := h.cfg.Machines.Token(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if t.UserID != call.Actor.User.ID && call.Can(accounts.ManageTeam) != nil {
		return nil, rest.ErrNotFound
	}
	if err := h.cfg.Machines.RevokeToken(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.RevokeRunnerToken204Response{}, nil
}

// EnrolRunner registers a machine. Nobody is signed in there: the token says whose it becomes.
func (h Enrolment) EnrolRunner(ctx context.Context, req api.EnrolRunnerRequestObject) (api.EnrolRunnerResponseObject, error) {
	b := req.Body
	e := wire.Enrol{Token: b.Token, Name: rest.Val(b.Name), PublicKey: b.PublicKey}
	raw, err := json.Marshal(b.Hello)
	if err == nil {
		err = json.Unmarshal(raw, &e.Hello)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "runner_hello_invalid", "hello is not a valid description of a machine.").With("field", "hello")
	}
	done, err := h.cfg.Machines.Enrol(ctx, e, h.AddressOf(rest.CallOf(ctx).Request))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "machine", done.RunnerID, done.Name)
	return api.EnrolRunner201JSONResponse{RunnerId: done.RunnerID, Name: done.Name, Team: done.Team, ServerKey: done.ServerKey}, nil
}

// ConnectRunner is GET /runner/connect: it lasts as long as the machine is connected.
func (h Enrolment) ConnectRunner(c echo.Context) error {
	r := c.Request()
	err := h.cfg.Machines.Connect(c.Response(), r, h.AddressOf(r))
	if err == nil {
		rest.CallOf(r.Context()).Status = http.StatusSwitchingProtocols
	}
	return err
}

func (h Enrolment) downloadOf(server string, d machines.Download) api.RunnerDownload {
	out := api.RunnerDownload{Os: api.RunnerDownloadOs(d.OS), Arch: api.RunnerDownloadArch(d.Arch), Name: d.Name, File: d.File(), Url: server + rest.Base + "/runner/downloads/" + d.File(),
		Size: d.Size, Sha256: d.SHA256, Version: h.cfg.Version, Available: d.Reason == "", Reason: d.Reason}
	if out.Available {
		check := "sha256sum -c -"
		if d.OS == "darwin" {
			check = "shasum -a 256 -c -"
		}
		out.Install = fmt.Sprintf("curl -fsSLo parawork %s && echo '%s  parawork' | %s && chmod +x parawork", quoted(out.Url), d.SHA256, check)
	}
	return out
}

func (h Enrolment) ListRunnerDownloads(ctx context.Context, _ api.ListRunnerDownloadsRequestObject) (api.ListRunnerDownloadsResponseObject, error) {
	server := h.Here(rest.CallOf(ctx).Request)
	return api.ListRunnerDownloads200JSONResponse{Items: rest.List(h.cfg.Downloads.List(), func(d machines.Download) api.RunnerDownload { return h.downloadOf(server, d) })}, nil
}

// GetRunnerDownload is GET /runner/downloads/{file}.
func (h Enrolment) GetRunnerDownload(c echo.Context) error {
	f, d, changed, err := h.cfg.Downloads.Open(c.Param("file"))
	if err != nil {
		return err
	}
	defer f.Close()
	head := c.Response().Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Disposition", `attachment; filename="parawork"`)
	head.Set("ETag", `"`+d.SHA256+`"`)
	head.Set("X-Parawork-Sha256", d.SHA256)
	head.Set("Cache-Control", "no-cache")
	http.ServeContent(c.Response(), c.Request(), "", changed, f)
	return nil
}
