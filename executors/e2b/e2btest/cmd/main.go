// Command cmd serves a stand-in for E2B for people and for tests of a browser, and is what runs inside its sandboxes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "e2btest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "envd":
			return envd.Main()
		case "launch":
			return launch(args[1:])
		}
	}
	return serve(args)
}

// gateFD says when a launcher may become its program.
const gateFD = 5

// launch waits until its process is in its group and becomes the program it was given.
func launch(argv []string) error {
	gate := os.NewFile(gateFD, "gate")
	if _, err := gate.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting to begin: %w", err)
	}
	_ = gate.Close()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	for _, fd := range []int{envd.ServeFD, envd.PortsFD} {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0); errno != 0 {
			return errno
		}
	}
	return syscall.Exec(path, argv, os.Environ())
}

// serve runs the stand-in until it is interrupted. Its addresses and key are the first line it prints, as JSON.
func serve(args []string) error {
	flags := flag.NewFlagSet("e2btest", flag.ContinueOnError)
	key := flags.String("key", "", "the API key; a new one without it")
	show := flags.String("show", "", "files and folders that sandboxes see, read-only, separated by :")
	network := flags.Bool("network", true, "sandboxes share this machine's network")
	concurrent := flags.Int("concurrent", 0, "how many sandboxes may run at once")
	run := flags.Duration("max-run", 0, "how long one run may last")
	old := flags.Bool("old", false, "know only version 1 of the API")
	domain := flags.String("domain", "", "the domain answers name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := e2btest.Config{Key: *key, HostNetwork: *network, Program: program, Old: *old, Domain: *domain,
		Plan: e2btest.Plan{Concurrent: *concurrent, MaxRun: *run}}
	if *show != "" {
		cfg.Show = strings.Split(*show, ":")
	}
	s, err := e2btest.Open(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"api_url": s.APIURL(), "sandbox_url": s.SandboxURL(), "api_key": s.Key()}); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}
