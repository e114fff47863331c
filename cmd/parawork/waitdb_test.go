package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Who asks a server that waits for its database hears why, and the address goes on to serve when that is over.
func TestAServerThatWaitsForItsDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ask := func() (int, string) {
		t.Helper()
		res, err := http.Get("http://" + l.Addr().String() + "/api/v1/health")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b) + res.Header.Get("Retry-After")
	}
	stop := answerWaiting(l, "waiting for the database")
	if code, said := ask(); code != 503 || !strings.Contains(said, `"status":"starting"`) || !strings.Contains(said, "waiting for the database") || !strings.HasSuffix(said, "5") {
		t.Errorf("while it waits: %d %s", code, said)
	}
	stop()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "serving") })}
	go func() { _ = web.Serve(l) }()
	defer web.Close()
	http.DefaultClient.CloseIdleConnections()
	if code, said := ask(); code != 200 || said != "serving" {
		t.Errorf("afterwards: %d %s", code, said)
	}
}
