/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A power meter of ACPI for the tests: it shows the watts that a test has written to port 0x82, a page
 * register of the DMA controller that nothing in such a machine uses.
 */
DefinitionBlock ("", "SSDT", 2, "NOCTUL", "POWER", 1)
{
    Scope (\_SB)
    {
        Device (PWR0)
        {
            Name (_HID, "ACPI000D")
            Name (_UID, Zero)
            OperationRegion (PAGE, SystemIO, 0x82, 1)
            Field (PAGE, ByteAcc, NoLock, Preserve)
            {
                WATT, 8
            }

            /* It can measure (flag 1), in milliwatts; a sample each 100 ms, averages of 1 s to 10 s. */
            Method (_PMC)
            {
                Return (Package (14)
                {
                    1, 0, 0, 100000, 100, 1000, 10000, 0xFFFFFFFF, 0, 0, 0, "noctule", "0", ""
                })
            }

            Method (_PMM)
            {
                Return (WATT * 1000)
            }

            Method (_GAI)
            {
                Return (1000)
            }

            Method (_PAI, 1)
            {
                Return (Zero)
            }

            Method (_PMD)
            {
                Return (Package (Zero) {})
            }
        }
    }
}
