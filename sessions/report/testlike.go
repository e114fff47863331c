package report

import "regexp"

// testing matches the beginnings of commands that run tests, in the languages agents meet most.
var testing = regexp.MustCompile(`(^|[;&|(]\s*|\s--\s)((sudo|time|env|npx|bunx|pnpm exec|yarn|uv run|poetry run|bundle exec|python3? -m|(\w+=\S+))\s+)*(` +
	`go test|cargo (test|nextest)|(npm|pnpm|yarn|bun|deno)( run)? test|pytest|unittest|tox|nox|jest|vitest|mocha|ava|playwright test|cypress run|` +
	`mvn\S* (\S+ )*(test|verify)|(\./)?gradlew? (\S+ )*(\S*:)?(test|check)|rspec|rake (test|spec)|(vendor/bin/|\./vendor/bin/)?phpunit|ctest|dotnet test|swift test|mix test|` +
	`make (\S+ )*(test|check)|just test|bazel test|sbt test|stack test|cabal test|zig build test|rails test|php artisan test)(\s|[;&|:)]|$|-\w)`)

// looksLikeTest reports whether a command runs tests, judging by its text.
func looksLikeTest(command string) bool {
	if len(command) > 4096 {
		command = command[:4096]
	}
	return testing.MatchString(command)
}
