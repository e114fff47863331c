package agents

// Kept names what of a home outlives the place it lies in: conversations, logins and settings of the agents. skip is what of that is
// not worth keeping: programs, caches and logs, which agents make anew. Names are relative to the home.
func Kept() (roots, skip []string) {
	return []string{accountsDir, claudeDir, claudeDir + ".json", codexDir, ".gemini", ".config/opencode", openCodeData, ".local/state/opencode"},
		[]string{claudeDir + "/statsig", claudeDir + "/shell-snapshots", claudeDir + "/ide", claudeDir + "/local", claudeDir + "/debug", claudeDir + "/telemetry",
			codexDir + "/log", codexDir + "/tmp", codexDir + "/bin", codexDir + "/.tmp", openCodeData + "/bin", openCodeData + "/log"}
}
