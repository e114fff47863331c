/** Icons of tabs and of pages of settings, which load with them: for the path of an Icon. */
export const ARTIFACT = "M4 2.5h5.5l3 3v8H4Zm5.5 0v3h3";
export const CODE = "M5.5 4.5 2 8l3.5 3.5m5-7L14 8l-3.5 3.5";
export const GLOBE = "M13.5 8a5.5 5.5 0 1 0-11 0 5.5 5.5 0 0 0 11 0ZM2.5 8h11M8 2.5c3 3.3 3 7.7 0 11-3-3.3-3-7.7 0-11";
export const EYE =
  "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8Zm8.2 0a1.7 1.7 0 1 0-3.4 0 1.7 1.7 0 0 0 3.4 0Z";
export const PERSON = "M10.6 5.2a2.6 2.6 0 1 0-5.2 0 2.6 2.6 0 0 0 5.2 0ZM3 13.5c.5-2.6 2.4-3.9 5-3.9s4.5 1.3 5 3.9";
export const PEOPLE =
  "M8.4 5.4a2.3 2.3 0 1 0-4.6 0 2.3 2.3 0 0 0 4.6 0ZM1.8 13c.4-2.3 2-3.5 4.3-3.5s3.9 1.2 4.3 3.5M10.3 3.3a2.3 2.3 0 0 1 0 4.2m1.6 2.3c1.3.5 2.1 1.6 2.4 3.2";
export const BELL = "M4 11V7a4 4 0 0 1 8 0v4l1.2 1H2.8Zm2.8 2.5h2.4";
export const CONTRAST = "M13.5 8a5.5 5.5 0 1 0-11 0 5.5 5.5 0 0 0 11 0ZM8 2.5v11M8 5l4.5 0M8 8h5.4M8 11h4.5";
export const SERVER = "M2.5 3h11v4h-11Zm0 6h11v4h-11ZM5 5h.01M5 11h.01";
export const DIFF = "M8 2.5v6M5 5.5h6M5 12.5h6";
export const MERGE =
  "M5.6 3.8a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0Zm0 8.4a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0Zm8-2a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0ZM4 5.4v5.2M4 5.5c.4 2.9 2.6 4.7 6.4 4.7";
export const CLOCK = "M13.5 8a5.5 5.5 0 1 0-11 0 5.5 5.5 0 0 0 11 0ZM8 5v3.2L10 9.5";
export const AGENT = "M3 5.5h10V13H3Zm5-3v3M6.2 8.5v1.2m3.6-1.2v1.2";
export const TABLE = "M2.5 3.5h11v9h-11Zm0 3h11m-11 3h11M6.5 6.5v6";
export const BOARD = "M2.5 3h3v10h-3Zm4 0h3v7h-3Zm4 0h3v4.5h-3Z";
