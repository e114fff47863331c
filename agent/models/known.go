package models

import (
	"cmp"
	"strings"
)

// Bounds where nobody says which a model has.
const (
	anthropicWindow = 200_000
	anthropicOutput = 32_000
	openAIWindow    = 128_000
	openAIOutput    = 16_000
	otherWindow     = 128_000
	otherOutput     = 8_000
)

// families are bounds of models whose provider does not tell them: OpenAI's list has names alone. The first whose beginning fits counts.
// https://developers.openai.com/api/docs/models, https://platform.claude.com/docs/en/about-claude/models/overview
var families = []struct {
	begins         string
	window, output int64
}{
	{"gpt-5-chat", 128_000, 16_384},
	{"gpt-5.1-chat", 128_000, 16_384},
	{"gpt-5.2-chat", 128_000, 16_384},
	{"gpt-5.3-chat", 128_000, 16_384},
	{"gpt-5", 400_000, 128_000},
	{"gpt-6", 400_000, 128_000},
	{"codex-mini", 200_000, 100_000},
	{"gpt-4.1", 1_047_576, 32_768},
	{"gpt-4o", 128_000, 16_384},
	{"o1", 200_000, 100_000},
	{"o3", 200_000, 100_000},
	{"o4", 200_000, 100_000},
	{"claude-3-", 200_000, 8_192},
	{"claude-opus-4-1", 200_000, 32_000},
	{"claude-opus-4-2", 200_000, 32_000},
	{"claude-opus-4-0", 200_000, 32_000},
	{"claude-", 200_000, 64_000},
}

// family returns the bounds of a model's family; false when it is of none. Names of gateways before the provider, such as openai/gpt-5,
// are those of the provider.
func family(name string) (Info, bool) {
	plain := name[strings.LastIndexByte(name, '/')+1:]
	for _, f := range families {
		if strings.HasPrefix(plain, f.begins) {
			return Info{Name: name, Window: f.window, Output: f.output}, true
		}
	}
	return Info{Name: name}, false
}

// assumed are the bounds of a model of which the provider says nothing.
func assumed(api, name string) Info {
	i, ok := family(name)
	switch {
	case ok:
	case api == Messages:
		i.Window, i.Output = anthropicWindow, anthropicOutput
	case api == Responses:
		i.Window, i.Output = openAIWindow, openAIOutput
	default:
		i.Window, i.Output = otherWindow, otherOutput
	}
	return i
}

// or fills in bounds that are unknown.
func (i Info) or(other Info) Info {
	i.Window, i.Output = cmp.Or(i.Window, other.Window), cmp.Or(i.Output, other.Output)
	return i
}

// writes reports whether a model of OpenAI's own list writes text: the list has those for pictures, sound and search, too.
func writes(name string) bool {
	for _, other := range []string{"embedding", "whisper", "tts", "dall-e", "image", "moderation", "babbage", "davinci", "sora", "realtime", "audio", "transcribe", "instruct", "search", "computer-use"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	return true
}
