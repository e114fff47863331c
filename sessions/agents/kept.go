package agents

// Kept returns which parts of a home outlive its sandbox: conversations, logins and settings of the agents. skip lists the parts
// of those that are not worth storing: programs, caches and logs, which agents create anew. Names are relative to the home.
func Kept() (roots, skip []string) {
	return []string{accountsDir, claudeDir, claudeDir + ".json", codexDir, ".gemini", ".config/opencode", openCodeData, ".local/state/opencode"},
		[]string{claudeDir + "/statsig", claudeDir + "/shell-snapshots", claudeDir + "/ide", claudeDir + "/local", claudeDir + "/debug", claudeDir + "/telemetry",
			codexDir + "/log", codexDir + "/tmp", codexDir + "/bin", codexDir + "/.tmp", openCodeData + "/bin", openCodeData + "/log"}
}
