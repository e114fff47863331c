package report

// LooksLikeTest is looksLikeTest.
var LooksLikeTest = looksLikeTest
