package hosts

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/schema"
)

// Kind is this executor's kind.
const Kind executors.Kind = "dockerhosts"

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Docker hosts", Rank: 7, Boundary: executors.ContainerBoundary, OnServer: true, Settings: settings, Docs: "docs/docker-hosts.md",
		New: newExecutor, Test: test,
	}
}

// settings are those of sandboxing.dockerhosts.
var settings = schema.Schema{
	{Key: "hosts", Name: "hosts", Type: schema.List, Label: "Hosts", Example: "build-1 ssh://deploy@10.0.0.5 SHA256:…",
		Hint: "One on a line: a name, its address and the fingerprint of its host key. Leave the fingerprint out and press Test to learn it.",
		Check: func(v any) string {
			if _, err := ParseHosts(v.([]string)); err != nil {
				return "cannot be used: " + err.Error()
			}
			return ""
		}},
	{Key: "privateKey", Name: "private_key", Type: schema.Secret, Optional: true, Label: "Private key",
		Hint: "To log in at every host, without a passphrase. Kept sealed and never shown again. Empty: the SSH agent of the server's user."},
	{Key: "image", Name: "image", Type: schema.Text, Default: recipe.BaseImage, Label: "Image",
		Hint: "Of sandboxes whose workspace names none. Each host pulls it and installs the agents it lacks, once.", Check: func(v any) string {
			if v == "" {
				return "must name an image"
			}
			return ""
		}},
	{Key: "runtime", Name: "runtime", Type: schema.Text, Label: "Runtime", Example: "runsc", Rare: true, Hint: "As the engines call it. Empty: each engine's usual one."},
}

// FromValues are the settings that config.json and operators give. Lines that cannot be read were refused before.
func FromValues(v schema.Values) Settings {
	all, _ := ParseHosts(v.List("hosts")) // Check has refused what is wrong
	return Settings{Hosts: all, Key: lines(v.Text("privateKey")), Image: v.Text("image"), Runtime: v.Text("runtime")}
}

// oneLine is a private key whose line breaks were lost, as in a field of one line.
var oneLine = regexp.MustCompile(`^(-----BEGIN [A-Z ]+-----)([A-Za-z0-9+/= ]+)(-----END [A-Z ]+-----)$`)

// lines gives a private key its line breaks back.
func lines(key string) string {
	key = strings.ReplaceAll(strings.TrimSpace(key), "\r\n", "\n")
	if m := oneLine.FindStringSubmatch(key); m != nil {
		return m[1] + "\n" + strings.ReplaceAll(m[2], " ", "") + "\n" + m[3]
	}
	return key
}

// test tries every host before it is kept.
func test(ctx context.Context, v schema.Values) (string, error) {
	found, err := Check(ctx, FromValues(v))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "no host is set up", nil
	}
	words := make([]string, len(found))
	for i, f := range found {
		words[i] = fmt.Sprintf("%s has Docker %s, %d processors and %.1f GiB free of %.1f", f.Host, f.Docker, f.CPUs, float64(f.Free)/(1<<30), float64(f.Memory)/(1<<30))
	}
	return strings.Join(words, "; "), nil
}

// Found is what a host that works has.
type Found struct {
	Host, Docker string
	CPUs         int
	Memory, Free int64 // bytes
}
