package hostgit

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// hookEvents are disabled one by one: hooks defined in config (git 2.54 and later) do not obey core.hooksPath.
var hookEvents = [...]string{"reference-transaction", "post-checkout", "post-index-change", "post-commit", "post-merge",
	"post-rewrite", "pre-auto-gc", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg"}

// args returns git's arguments: the profile's settings, the call's, then the subcommand.
func (g *Git) args(c Call) []string {
	args := []string{"--no-pager", "--no-optional-locks"}
	set := func(kv string) { args = append(args, "-c", kv) }
	set("core.hooksPath=/dev/null")
	set("core.fsmonitor=false")
	set("submodule.recurse=false")
	set("gc.auto=0")
	set("maintenance.auto=false")
	set("commit.gpgSign=false")
	set("log.showSignature=false") // otherwise git would run the repository's gpg.program for each commit it reads
	set("core.quotePath=false")
	set("init.defaultBranch=main")
	for _, e := range hookEvents {
		set("hook." + e + ".enabled=false")
	}
	if c.Network {
		set("credential.helper=") // clear what the repository's config names
		if c.Credential != nil {
			for _, kv := range c.Credential.config() {
				set(kv)
			}
		}
		set("http.lowSpeedLimit=100")
		set("http.lowSpeedTime=60")
	}
	for _, kv := range c.Config {
		set(kv)
	}
	return append(args, c.Args...)
}

// env returns the environment: of the server's, only what is named here.
func (g *Git) env(c Call) []string {
	path := cmp.Or(g.cfg.Env("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	env := []string{
		"PATH=" + path, "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=never",
		"GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false", "GIT_PAGER=cat", "GIT_MERGE_AUTOEDIT=no",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/nonexistent/grafts", "GIT_LITERAL_PATHSPECS=1",
		"GIT_AUTHOR_NAME=Parawork", "GIT_AUTHOR_EMAIL=parawork@localhost",
		"GIT_COMMITTER_NAME=Parawork", "GIT_COMMITTER_EMAIL=parawork@localhost",
	}
	if c.Network {
		env = append(env, "GIT_ALLOW_PROTOCOL="+strings.Join(g.protocols(c), ":"), "GIT_SSH_COMMAND="+g.sshCommand())
		passed := []string{"SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "TMPDIR"}
		if g.cfg.Outgoing == nil { // otherwise git would bypass the tunnel through them
			passed = append(passed, proxyVariables...)
		}
		for _, k := range passed {
			if v := g.cfg.Env(k); v != "" {
				env = append(env, k+"="+v)
			}
		}
	} else {
		env = append(env, "GIT_ALLOW_PROTOCOL=none")
	}
	switch {
	case c.Discover:
		env = append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.Dir))
	case c.GitDir != "":
		env = append(env, "GIT_DIR="+c.GitDir)
	default:
		env = append(env, "GIT_DIR="+os.DevNull) // never a repository found by chance
	}
	if c.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.WorkTree)
	}
	if c.Objects != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+c.Objects)
	}
	return append(env, c.Env...)
}

// sshCommand makes ssh fail instead of prompting, and stores new host keys in a file of ours.
func (g *Git) sshCommand() string {
	cmd := "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o StrictHostKeyChecking=accept-new"
	if g.cfg.Outgoing != nil {
		// A shared ssh connection would bypass the tunnel. ssh runs this through a shell: the program's path is not part of the line.
		cmd += ` -o ControlMaster=no -o ControlPath=none -o 'ProxyCommand="$` + connectorEnv + `" %h %p'`
	}
	known := filepath.Join(g.cfg.StateDir, "known_hosts")
	if g.cfg.StateDir == "" || strings.ContainsAny(known, "'\"\\\n%$`") {
		return cmd
	}
	if err := os.MkdirAll(g.cfg.StateDir, 0o700); err != nil {
		return cmd
	}
	return cmd + ` -o 'UserKnownHostsFile="` + known + `" ~/.ssh/known_hosts'`
}
