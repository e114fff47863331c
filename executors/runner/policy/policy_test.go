package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

func TestTheFileIsReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"foldres": []}`:                `unknown field "foldres"`,
		`{} {}`:                          "behind the closing brace",
		`{"modes": []}`:                  "at least one",
		`{"modes": ["podman"]}`:          `"podman"`,
		`{"access": "all"}`:              `"all"`,
		`{"share": "world"}`:             `"world"`,
		`{"network": {"mode": "lan"}}`:   `"lan"`,
		`{"network": {"mode": "allow"}}`: "network.allow",
		`{"network": {"mode": "none", "allow": ["x.org"]}}`:             "network.allow",
		`{"network": {"mode": "allow", "allow": ["a b"]}}`:              `"a b"`,
		`{"folders": [{"path": "code"}]}`:                               "absolute",
		`{"folders": [{"path": "/"}]}`:                                  "whole machine",
		`{"folders": [{"path": "/x"}, {"path": "/x/"}]}`:                "twice",
		`{"folders": [{"path": "/x", "access": "rw"}]}`:                 `"rw"`,
		`{"limits": {"memoryMb": 1}}`:                                   "memory_mb",
		`{"limits": {"sandboxes": -1}}`:                                 "sandboxes",
		`{"quietHours": [{"from": "25:00", "to": "07:00"}]}`:            `"25:00"`,
		`{"quietHours": [{"from": "2:00", "to": "7", "days": []}]}`:     `"7"`,
		`{"quietHours": [{"from":"22:00","to":"07:00","days":["xx"]}]}`: `"xx"`,
		`{"paths": ["~"]}`:                                              "as a whole",
		`{"answerMinutes": 0}`:                                          "answerMinutes",
		`{"log": {"keepMb": 0}}`:                                        "keepMb",
	} {
		if _, err := policy.Parse([]byte(text), "/home/ann"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something with %s", text, err, want)
		}
	}
}

func TestWhatTheFileSaysAndLeavesOut(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`{"modes": ["bubblewrap"], "access": "ask", "folders": [{"path": "~/code"}, {"path": "/srv/x", "name": "X", "access": "read_only"}], "limits": {"cpus": 2}}`), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Modes) != 1 || p.Modes[0] != wire.Bubblewrap || p.Access != wire.Ask || p.Share != policy.ShareOwner || p.Image != policy.DefaultImage {
		t.Errorf("%+v", p)
	}
	if len(p.Folders) != 2 || p.Folders[0] != (policy.Folder{Path: "/home/ann/code", Name: "code", Access: wire.Full}) || p.Folders[1].Name != "X" {
		t.Errorf("folders %+v", p.Folders)
	}
	if p.Limits != (policy.Limits{CPUs: 2}) {
		t.Errorf("limits %+v: a section that is given is the owner's own", p.Limits)
	}
	again, err := policy.Parse(p.JSON(), "/home/ann")
	if err != nil || again.Folders[0] != p.Folders[0] || again.Limits != p.Limits {
		t.Errorf("read back: %+v, %v", again, err)
	}
}

func TestAFileOthersMayWriteIsNotBelieved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runner.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(path, "/home/ann"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o606); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(path, "/home/ann"); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("%v", err)
	}
	if _, err := policy.Load(t.TempDir(), "/home/ann"); err == nil {
		t.Error("a folder was read as a file")
	}
}

func TestNetworkOfModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		mode wire.Mode
		want string // "" = refused
	}{
		{"", wire.Docker, "open"}, {"", wire.Bubblewrap, "open"}, {"", wire.Direct, "host"},
		{"host", wire.Docker, "host"}, {"host", wire.Bubblewrap, "host"}, {"host", wire.Direct, "host"},
		{"none", wire.Docker, "none"}, {"none", wire.Direct, ""},
	} {
		n, err := policy.Policy{Network: policy.Network{Mode: c.file}}.NetworkFor(c.mode)
		if (err != nil) != (c.want == "") || err == nil && n.Mode != c.want {
			t.Errorf("%q in %s: %q, %v", c.file, c.mode, n.Mode, err)
		}
	}
}

func TestQuietHours(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		tm, err := time.Parse("2006-01-02 15:04", text) // 2026-11-23 is a Monday
		if err != nil {
			t.Fatal(err)
		}
		return tm
	}
	for _, c := range []struct{ file, now, until string }{
		{`{"from": "22:00", "to": "07:00"}`, "2026-11-23 21:59", ""},
		{`{"from": "22:00", "to": "07:00"}`, "2026-11-23 22:00", "2026-11-24 07:00"},
		{`{"from": "22:00", "to": "07:00"}`, "2026-11-24 06:59", "2026-11-24 07:00"},
		{`{"from": "22:00", "to": "07:00"}`, "2026-11-24 07:00", ""},
		{`{"from": "22:00", "to": "07:00", "days": ["Mon"]}`, "2026-11-24 03:00", "2026-11-24 07:00"},
		{`{"from": "22:00", "to": "07:00", "days": ["mon"]}`, "2026-11-23 03:00", ""},
		{`{"from": "12:00", "to": "13:30"}`, "2026-11-23 12:30", "2026-11-23 13:30"},
		{`{"from": "00:00", "to": "00:00", "days": ["sat", "sun"]}`, "2026-11-28 12:00", "2026-11-30 00:00"},
		{`{"from": "00:00", "to": "00:00", "days": ["sat", "sun"]}`, "2026-11-27 23:59", ""},
		{`{"from": "22:00", "to": "23:00"}, {"from": "23:00", "to": "01:00"}`, "2026-11-23 22:10", "2026-11-24 01:00"},
	} {
		p, err := policy.Parse([]byte(`{"quietHours": [`+c.file+`]}`), "/home/ann")
		if err != nil {
			t.Fatal(err)
		}
		until, quiet := p.Quiet(at(c.now))
		if quiet != (c.until != "") || quiet && !until.Equal(at(c.until)) {
			t.Errorf("%s at %s: %v until %v, want %q", c.file, c.now, quiet, until, c.until)
		}
	}
	p, err := policy.Parse([]byte(`{"quietHours": [{"from": "00:00", "to": "00:00"}]}`), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, quiet := p.Quiet(at("2026-11-23 12:00")); !quiet { // for ever, and it must come back
		t.Error("all day, each day, is not quiet")
	}
	if w := p.QuietWords(); w != "all day" {
		t.Errorf("%q", w)
	}
}
