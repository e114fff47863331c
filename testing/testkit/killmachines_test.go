package testkit_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/testing/testkit"
)

// device is a member's machine that says what it is, and nothing more.
type device struct {
	token string
	key   ed25519.PrivateKey
	is    wire.Enrolled
}

var deviceHello = wire.Hello{Version: wire.Version, Build: "test", OS: "linux", Arch: "amd64", Mode: wire.Docker, Available: true, Access: wire.Full, Network: "host"}

func (d *death) bringDevice() {
	d.t.Helper()
	var made struct{ Token string }
	d.API("POST", "/teams/"+d.Team+"/runners", map[string]any{"name": "Laptop"}, &made)
	_, key, err := ed25519.GenerateKey(nil)
	must(d.t, err)
	d.device = device{token: made.Token, key: key}
}

// enrolDevice exchanges the token, as the program does; the server may die before it answers.
func (d *death) enrolDevice() {
	_ = d.Try("POST", "/runner/enrol", wire.Enrol{Token: d.device.token, PublicKey: d.device.key.Public().(ed25519.PublicKey), Hello: deviceHello}, &d.device.is)
}

func (d *death) enrolledOnce() {
	d.t.Helper()
	d.enrolDevice() // again, with the same key: the answer was lost
	all := d.devices()
	if len(all) != 1 || all[0].ID != d.device.is.RunnerID || all[0].Name != "Laptop" {
		d.t.Fatalf("%+v, enrolled as %+v", all, d.device.is)
	}
	d.deviceOnline()
}

func (d *death) devices() []testkit.Runner {
	d.t.Helper()
	var all struct{ Items []testkit.Runner }
	d.API("GET", "/teams/"+d.Team+"/runners", nil, &all)
	return all.Items
}

func (d *death) bringKnownDevice() {
	d.t.Helper()
	d.bringDevice()
	d.enrolDevice()
	if d.device.is.RunnerID == "" {
		d.t.Fatal("the machine was not enrolled")
	}
}

// connectDevice is connected until ctx ends or the server goes.
func (d *death) connectDevice(ctx context.Context) error {
	nc, err := tunnel.Dial(ctx, tunnel.DialConfig{URL: d.URL, RunnerID: d.device.is.RunnerID, Key: d.device.key, ServerKey: d.device.is.ServerKey})
	if err != nil {
		return err
	}
	return tunnel.Serve(ctx, nc, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.Event{Type: wire.EventHello, Hello: &deviceHello})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
}

// dieConnected connects; the server dies on the way.
func (d *death) dieConnected() {
	d.t.Helper()
	if err := d.connectDevice(d.t.Context()); err == nil || strings.Contains(err.Error(), "revoked") {
		d.t.Errorf("the machine hears %v", err)
	}
}

// deviceBack looks for the end of the connection the server died on, and connects again.
func (d *death) deviceBack() {
	d.t.Helper()
	if all := d.devices(); len(all) != 1 || all[0].State != "offline" || !strings.Contains(all[0].OfflineReason, "stopped unexpectedly") {
		d.t.Errorf("%+v", all)
	}
	var history struct {
		Items []struct {
			EndedAt *int64 `json:"ended_at"`
			Reason  string
		}
	}
	d.API("GET", "/runners/"+d.device.is.RunnerID+"/history", nil, &history)
	if len(history.Items) != 1 || history.Items[0].EndedAt == nil || !strings.Contains(history.Items[0].Reason, "stopped unexpectedly") {
		d.t.Errorf("%+v", history)
	}
	d.deviceOnline()
}

// deviceOnline connects and sees that the instance knows.
func (d *death) deviceOnline() {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.connectDevice(ctx) }()
	d.Wait("the machine is online", func() bool { all := d.devices(); return len(all) == 1 && all[0].State == "online" })
	cancel()
	<-ended
	d.Wait("it is offline", func() bool { return d.devices()[0].State == "offline" })
}
