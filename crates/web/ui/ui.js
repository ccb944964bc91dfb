// The one place that names the library of the page.

import { h, render } from "preact";
import htm from "htm";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
export { render };
