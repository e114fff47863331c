package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// waitPause is how long the server waits between two attempts to reach its database.
const waitPause = time.Second

// waitForDatabase waits until a PostgreSQL that cannot be reached can, for database.waitSeconds at most, and says so on stderr and, meanwhile, to
// whoever asks on l. Afterwards l is as it was.
func waitForDatabase(ctx context.Context, cfg *config.Config, l net.Listener, stderr io.Writer) error {
	ask := func() error {
		_, err := store.Inspect(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
		if fault.CodeOf(err) != "database_unreachable" && fault.CodeOf(err) != "database_unavailable" {
			return nil // it answers: what else is wrong is said by who opens it
		}
		return err
	}
	if file, err := store.SQLiteFile(store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir}); err != nil || file != "" {
		return nil
	}
	err := ask()
	if err == nil || cfg.Database.WaitSeconds == 0 {
		return err
	}
	why := fmt.Sprintf("waiting for the database, for %d seconds at most (database.waitSeconds): %v", cfg.Database.WaitSeconds, err)
	fmt.Fprintln(stderr, "parawork: "+why)
	stop := answerWaiting(l, why)
	defer stop()
	limit, cancel := context.WithTimeout(ctx, time.Duration(cfg.Database.WaitSeconds)*time.Second)
	defer cancel()
	for err != nil {
		select {
		case <-limit.Done():
			return err
		case <-time.After(waitPause):
		}
		err = ask()
	}
	fmt.Fprintln(stderr, "parawork: the database is available")
	return nil
}

// staying is a listener that outlives the HTTP server on it.
type staying struct{ net.Listener }

func (staying) Close() error { return nil }

// answerWaiting answers every request on l with why the server does not serve yet. stop ends that and leaves l open.
func answerWaiting(l net.Listener, why string) (stop func()) {
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{"code": "starting", "message": "The server is starting: it is " + why}
		if r.URL.Path == "/api/v1/health" {
			body = map[string]string{"status": "starting", "version": version, "reason": why}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(body)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(staying{l})
	}()
	return func() {
		deadline, ok := l.(interface{ SetDeadline(time.Time) error })
		if ok {
			_ = deadline.SetDeadline(time.Unix(1, 0)) // Accept returns
		}
		_ = web.Close()
		<-done
		if ok {
			_ = deadline.SetDeadline(time.Time{})
		}
	}
}
