// Re-exports the page's rendering library. No other file imports the library.

import { h, render } from "preact";
import htm from "htm";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
export { render };
